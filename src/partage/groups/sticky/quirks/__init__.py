"""Defects of Kafka's sticky classes, and inputs that no real client sends.

`member_lists` is the general algorithm for claims of partitions that do not exist, which make
Kafka assign partitions twice; `owner_map` is the iteration order of its map there, `movements`
its record of movements, `unassigned` its comparison of sorted lists that stops too early.
"""
