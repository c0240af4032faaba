"""The assignors of Kafka's group coordinator (KIP-848, KIP-932), which run in the broker.

Strategies: `range`, `uniform` (Kafka's homogeneous and heterogeneous builders, with `kernels`),
`simple`, and `partage` (those of the jar for brokers). Input: `spec` (Kafka's GroupSpec, the
previous target assignment, topic ids). Output: `group_assignment`.
"""
