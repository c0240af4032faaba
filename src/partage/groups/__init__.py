"""Strategies that assign partitions to members of a group.

    api             the interface of a strategy
    registry        strategies by name, plug-ins
    layout          orders and rows of partitions that strategies share

Kafka's:
    range           ``RangeAssignor``, with racks (KIP-881)
    roundrobin      ``RoundRobinAssignor``
    sticky          ``StickyAssignor`` and ``CooperativeStickyAssignor``
    server          assignors of the group coordinator (KIP-848)

Partage's:
    optimal         the best plan, with a certificate
    fair            KIP-49's fair assignor
    failover        the member with the highest priority owns everything

Those of other clients:
    dialects        kafka-python, aiokafka, librdkafka, Go clients
    faust           Faust's assignor

A group over time:
    negotiation     the strategy that the coordinator chooses
    subscriptions   user data that members send
    rounds          successive rebalances
"""
