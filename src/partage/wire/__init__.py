"""Kafka's bytes: bytes in, plain values or columns out, and back.

The parts, from below: `primitives` (bounds-checked reading and writing), `schema` (how a layout is
said), `messages` (the layouts), `codec` (one engine for all of them), and what stands on it:
`consumer_protocol`, `sticky_userdata`, `group_log` and `commits`.

Pure: no I/O, no clock. Every error is a `partage.errors.WireFormatError`; no length or count in
foreign bytes takes memory before it is checked against the bytes that are left.
"""

from __future__ import annotations
