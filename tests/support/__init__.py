"""Helpers that tests share: real processes, recorded and synthetic data, small problems."""
