"""`partage watch`: a cluster's group histories as a stream, on Spark Structured Streaming.

watch           the entry and the table of contents
capture_log     reads a growing capture or the topic, and decodes it
group_tables    the state of one group, and its rows of the output tables
stream_output   tables of each micro-batch: Parquet, Delta or Iceberg
"""

from __future__ import annotations
