"""Partitioners of client libraries: one module, with one table, for each library."""
