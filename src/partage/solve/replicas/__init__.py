"""Algorithms that place replicas on brokers, for `partage reassign`."""
