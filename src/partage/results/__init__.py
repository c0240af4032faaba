"""Results of a replay in Python: `replay`, `open_run`, a `Run` and its tables.

`run` has these functions and `Run`. `tables` has the rows' types and `TableView`, which is a
sequence in Python and a stream of Arrow data for other libraries. `forecasts` has `forecast`,
`migrate` and `size`.
"""

from __future__ import annotations

from partage.results.forecasts import forecast, migrate, size
from partage.results.run import GroupRun, Run, open_run, replay
from partage.results.tables import TableView

__all__ = ["GroupRun", "Run", "TableView", "forecast", "migrate", "open_run", "replay", "size"]
