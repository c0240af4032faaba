"""`partage keys`: how the keys of an input spread over partitions; `analysis` is the entry point.

Modules: `analysis` (request and result), `sources` (files, tables, topics), `columns` (schema,
serializers, times), `counting` (first stage), `loads` (second stage), `blocks` (rows between the
stages), `workers` (both stages in threads of this process, or in Spark's workers).
"""

from __future__ import annotations
