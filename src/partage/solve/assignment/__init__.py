"""Assignment of partitions to members: network flows, bounds and a local search, on arrays."""
