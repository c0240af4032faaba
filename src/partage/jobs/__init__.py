"""Jobs: a capture in, Parquet tables and a summary out; Spark or one process schedules them.

`replay` rebuilds and simulates the history of a capture, `keys` and `audit` serve the commands of
their names, `sweep` plays many Streams simulations at once, `spark` holds what all of them share.
"""

from __future__ import annotations
