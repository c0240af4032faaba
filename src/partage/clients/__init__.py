"""Strategies inside live consumers: one module for each client library, each optional.

    shared                 the client-independent part, bytes in and bytes out

Libraries whose consumers call a class:
    kafka_python           the class for kafka-python; every decision is in `shared`
    aiokafka               the class for aiokafka
    assignor_class_state   the state of such a class
    calling_client         the consumer that calls it
    load_sampling          measured loads

Faust:
    faust                  a subclass of Faust's own assignor
    faust_commits          the guard of its commits
"""
