"""The tables and metrics of a run, declared as data for its writers and readers.

| module | content |
|---|---|
| `statuses` | values of columns: statuses, kinds of simulation, causes |
| `metrics` | the metrics table: each figure of a simulated rebalance, declared once |
| `schemas` | names, columns and types of all tables |
| `sums` | sums of table ``replays`` by policy |
| `escaping` | names from tables as text of pages, pictures and XML |

It imports no other package.
"""
