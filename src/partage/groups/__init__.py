"""Partition to member: the contract, the registry, and one strategy a file."""
