"""The assignors of Kafka's group coordinator (KIP-848, KIP-932): topics by id.

Strategies: `range`, `uniform` (with `uniform_homogeneous`, `uniform_heterogeneous` and
`kernels`) and `simple`. Input: `spec` (Kafka's GroupSpec), `targets` (the previous target
assignment), `topic_ids`. Output: `group_assignment`. `walks` reproduces the iteration order of
Java's maps and sets.
"""
