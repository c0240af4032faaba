"""Defects of Kafka's sticky classes, and inputs that no real client sends.

`member_lists` is the general algorithm for claims of partitions that do not exist, which make Kafka
assign partitions twice. It includes the iteration order of Kafka's map (`OwnerMap`) and its record
of movements (`PartitionMovements`). `unassigned` is Kafka's comparison of sorted lists, which stops
too early.
"""
