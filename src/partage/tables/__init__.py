"""The contract between the writers and the readers of a run, as data.

| module | content |
|---|---|
| `statuses` | values of columns: statuses, kinds of simulation, causes |
| `metrics` | the metrics table: each figure of a simulated rebalance, declared once |
| `schemas` | names, columns and types of all tables |
| `sums` | sums of table ``replays`` by policy |

It imports no other package.
"""
