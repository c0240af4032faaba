"""Reports of a run for people: `data` reads the tables, `html` and `terminal` show them.

Plain data in; no Spark, no strategies.
"""

from __future__ import annotations
