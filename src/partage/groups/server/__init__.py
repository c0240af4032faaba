"""The strategies of Kafka's group coordinator (KIP-848, KIP-932): topics by id.

Which file answers what: `range`, `uniform`, `simple` are the strategies; `homogeneous` and
`heterogeneous` the two halves of uniform (`balancing` has the kernels of the second) (`sharing`,
`sharing_one_list` and `sharing_by_topic` those of simple; `spec` is what the coordinator passes
to any of them, `targets` the previous targets in it, `topic_ids` its ids, `walks` the order of
its maps; `answer` is what they decide, `reading` makes all this from JSON.
"""
