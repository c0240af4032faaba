"""The replay of a capture: decode, rebuild histories, simulate, write tables.

`replay` is the entry and the table of contents. Input: `capture`, `remote_capture`, `records`,
`selection`. First job: `decode`, `group_records`, `decoded_rows`, `clocks`, `tally`,
`inferred_metadata`. Second job: `histories`, `group_input`, `group_rows`, `table_rows`,
`spill_files`,
`failed_groups`. Third job: `simulations`. Results: `output`, `totals`, `summary`.
"""

from __future__ import annotations
