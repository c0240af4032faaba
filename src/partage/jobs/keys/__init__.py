"""`partage keys`: how the keys of an input spread over partitions; `analysis` is the entry point.

Modules: `analysis` (request and result), `sources` (files, tables, topics), `columns` (schema,
serializers, times), `workers` (the first stage; both stages in threads of this process, or in
Spark's workers), `loads` (second stage), `blocks` (rows between the stages).
"""

from __future__ import annotations
