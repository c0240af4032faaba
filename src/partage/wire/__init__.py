"""Kafka's binary formats: decode bytes to plain values or columns, and encode them.

The engine:
    primitives          bounds-checked reading and writing
    schema              layouts as data
    messages            Kafka's layouts as JSON documents
    codec               reads and writes every layout
    errors              errors with the field and the offset

Records:
    batches             record batches of log segments
    group_log           ``__consumer_offsets``
    metadata_log        ``__cluster_metadata``
    record_json         records as JSON
    columns             compiled readers: offset commits, classic groups, subscriptions of a group

Payloads of group members:
    consumer_protocol   subscriptions and assignments, with `StickyAssignor`'s user data
    streams             Kafka Streams
    faust               Faust
    member_extras       Partage's own

The package is pure: no I/O but its own documents, no clock. Every error is a
`partage.errors.WireFormatError`. No length or count in received bytes takes memory before it is
compared with the remaining bytes.
"""

from __future__ import annotations

from partage.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from partage.wire.group_log import decode_record

__all__ = [
    "decode_assignment",
    "decode_record",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]
