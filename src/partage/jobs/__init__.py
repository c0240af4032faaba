"""Jobs: a capture in, Parquet tables and a summary out; Spark or one process schedules them.

replay            rebuilds and simulates the history of a capture; `replay.replay` is the entry
watch             the same histories and tables as a stream, on Spark Structured Streaming
keys              the job of `partage keys`
audit             the job of `partage audit`
sweep             a parameter sweep of the Streams simulation, one task per combination
streams_capture   reads one Kafka Streams application from a capture
spark             what all jobs share on Spark: session, shipping, progress, errors
processes         worker processes on this machine, without Spark
"""

from __future__ import annotations
