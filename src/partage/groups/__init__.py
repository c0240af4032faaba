"""Strategies that assign partitions to members: their interface, the registry, the strategies."""
