"""Recording a cluster: its ``__consumer_offsets`` log and its metadata, live or from copied files.

A running cluster:
    live             the loop, and gaps in the log
    connection       requests
    messages         message schemas that kafka-python lacks
    security         client properties, TLS, SASL, tokens
    secrets          secret settings, and how they are hidden
    preflight        permissions, and how much of the past the log still has

Copied files:
    log_dir          log segments
    metadata_image   the cluster's metadata log
    unpacking        checksums, decompression

The folder of a capture:
    writing          the writer; the folder is valid after a kill at any moment
    manifest         the files in it
    durable          atomic writes

The present state, which is not recorded:
    groups           groups and their offsets
    replicas         replicas and their sizes

Only what reads a running cluster needs kafka-python. The texts that `partage capture` prints are
in `cli`.
"""

from __future__ import annotations
