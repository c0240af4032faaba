"""The replay of a capture: decode, rebuild histories, simulate, write tables.

    replay              the steps of a run; start here
    engines             Spark, or this process with worker processes, runs the jobs

Input:
    capture             finds and checks the input
    records             slices (row ranges of files) for workers, columns in log order
    selection           groups and times that the user selected

First job:
    decode              decodes each record once; offset commits are reduced to runs
    decoded_rows        the rows that it returns, by `DecodedKind`
    tally               counts of records, brokers with wrong clocks
    inferred_metadata   the cluster before the first recorded metadata

Second job:
    histories           rebuilds each group's history
    group_rows          one group's records and commits as rows of the output tables
    spill_files         each group's rebalances on disk, for the third job

Third job:
    simulations         simulates the policies, in independent units of work
    streams_settings    simulates Kafka Streams groups under other settings

Results:
    summary             totals, the check that each record is accounted for, ``summary.json``
    output              tables on disk, receipts, publication of a run
    remote_output       an output folder at an address
    lake_tables         runs as Delta or Iceberg tables

Continued runs (``--append``):
    append              the steps of the driver
    state_files         the stored state: positions in the log, versions of layouts
    stored_results      results of simulations, used again
    input_digests       whether old input has changed
"""

from __future__ import annotations
