"""Results of a replay in Python: `replay`, `open_run`, a `Run` and its tables.

run         `replay`, `open_run` and `Run`
tables      typed rows, as sequences (`TableView`) and streams of Arrow data
forecasts   `forecast`, `migrate` and `size`
"""

from __future__ import annotations

from partage.results.forecasts import forecast, migrate, size
from partage.results.run import GroupRun, Run, open_run, replay
from partage.results.tables import TableView

__all__ = ["GroupRun", "Run", "TableView", "forecast", "migrate", "open_run", "replay", "size"]
