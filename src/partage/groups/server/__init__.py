"""The strategies of Kafka's group coordinator (KIP-848, KIP-932): topics by id.

Which file answers what: `range`, `uniform`, `simple` are the strategies. `homogeneous` and
`heterogeneous` are the two halves of uniform (`balancing` has the kernels of the second);
`sharing_one_list` and `sharing_by_topic` those of simple, on `sharing` and `sharing_result`.
`spec` is what the coordinator passes to any of them, `targets` the previous targets in it,
`topic_ids` its ids; `walks` and `trees` are the order of its maps and sets. `answer` is what
they decide, `refusals` where they throw, `reading` makes all this from JSON.
"""
