"""`partage watch`: a cluster's group histories as a stream, on Spark Structured Streaming.

`watch` is the entry and the table of contents. `capture_log` reads a growing capture or the topic
and decodes it. `group_tables` has the state of one group, and its rows of the output tables.
`stream_output` writes the tables of each micro-batch, to Parquet, Delta or Iceberg, and reads them.
"""

from __future__ import annotations
