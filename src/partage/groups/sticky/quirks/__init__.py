"""Defects of Kafka's sticky classes, and inputs that no real client sends.

`member_lists` is the general algorithm for claims of partitions that do not exist, which make
Kafka assign partitions twice, with the iteration order of its map (`OwnerMap`) and its record of
movements (`PartitionMovements`). `unassigned` is its comparison of sorted lists that stops too
early.
"""
