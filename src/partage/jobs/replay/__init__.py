"""The replay of a capture: decode, rebuild histories, simulate, write tables.

`replay` is the entry and the table of contents. Input: `capture`, `records`, `selection`. First
job: `decode`, `decoded_rows`, `tally`, `inferred_metadata`. Second job:
`histories`, `group_rows`, `spill_files`. Third job: `simulations`. Results: `output`, `summary`,
`remote_output` (outputs at an address), `lake_tables` (Delta and Iceberg).
Continued runs: `append`, `state_files`, `stored_results`, `input_digests`.
"""

from __future__ import annotations
