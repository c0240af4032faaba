"""`partage keys`: how the keys of an input spread over partitions; `analysis` is the entry point.

analysis   request and result; start here
sources    files, tables, topics
columns    schema, serializers, times
workers    the first stage; threads of this process or Spark's workers
loads      the second stage: loads of partitions, moved records, hottest keys
blocks     rows between the stages
"""

from __future__ import annotations
