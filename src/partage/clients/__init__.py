"""Strategies inside live consumers: one module for each client library, each optional.

* `shared`: the client-independent part, bytes in and bytes out.
* `assignor_class_state`, `calling_client`, `load_sampling`: the state of an assignor class, the
  consumer that calls it, and measured loads, for the two libraries whose consumers call a class.
* `kafka_python`, `aiokafka`: that class; it has the methods that the library calls, reads the
  library's objects, and leaves every decision to `shared`.
* `faust`, `faust_commits`: a subclass of Faust's own assignor, and the guard of its commits.
"""
