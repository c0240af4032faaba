"""Spark: a capture in, Parquet tables and a summary out. Thin over `partage.history`.

Which file answers what: `replay` is the table of contents, `capture` reads and checks the
input, `session` starts Spark, `decode`, `histories` and `lives` are the jobs that `jobs` runs,
`schemas` the tables, `write` how they are published, `summary` what stands at the head. `keys`
and `audit` are the jobs of their own commands.
"""

from __future__ import annotations
