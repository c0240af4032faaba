"""Dialects: what other clients' assignors do under the protocol names of Kafka's Java client.

A group's leader decides with its own library's code, and the protocol name alone
(``range``, ``sticky``, ...) does not say whose that is. Each file here is one class or C
function of a peer, exact to one release, under a name like ``kafka-python:sticky``. They are
for reading history and for knowing a client, not for recommending: `docs/dialects.md` says
where each differs from Java's, and what is not worth imitating.
"""

from __future__ import annotations
