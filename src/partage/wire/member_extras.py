r"""A trailer that Partage's members append to user data: owned partitions and measured loads.

A member that revokes everything before it joins (EAGER) has no owned partitions to send, and no
client sends loads. The strategies that only Partage has (`optimal`, `failover` without takeover,
``server:``) append both as a trailer. A reader of the beginning of the user data, such as the
documented fail-over assignor, is not affected:

    the strategy's own user data
    body of ``PartageExtras``     claims with their generation; loads by partition
    int32  length of the body
    int32  marker                 0x50544731, "PTG1": format and version in one

Loads are int64, in thousandths of the unit in which they were measured; -1 means none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from partage.errors import WireFormatError
from partage.wire.codec import decode, encode
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader

__all__ = ["EXTRAS", "Extras", "append_trailer", "split_trailer", "trailer_start"]

EXTRAS = load_message("PartageExtras")

_MARKER = b"PTG1"
_TAIL_BYTES = 8  # length of the body, marker
_NO_LOAD = -1
_THOUSANDTHS = 1000

Partition = tuple[str, int]


@dataclass(frozen=True)
class Extras:
    """Data that Partage's assignors append to a member's user data when it joins.

    The group's leader learns from it which partitions the member owned, and their loads.

    Attributes:
        claims: the partitions that the member owned before it revoked all to rejoin.
        generation: the generation in which it owned them; -1 for none.
        measured: dict from partition to the load that the member measured.
        held: dict from partition to the load in the last plan (see `partage.weights`).
    """

    claims: tuple[Partition, ...] = ()
    generation: int = -1
    measured: Mapping[Partition, float] = field(default_factory=dict, hash=False)
    held: Mapping[Partition, float] = field(default_factory=dict, hash=False)


def append_trailer(data: bytes | None, extras: Extras) -> bytes:
    """Append Partage's own data (owned partitions and loads) to a member's user data.

    ``data`` are the assignment strategy's own bytes, ``extras`` the data to append. The member
    sends the result with its subscription.

    Raises:
        EncodingError: a name or a number does not fit.

    >>> split_trailer(append_trailer(b"own", Extras((("t", 1),), 4)))
    (b'own', Extras(claims=(('t', 1),), generation=4, measured={}, held={}))
    """
    claims: dict[str, list[int]] = {}
    for topic, number in extras.claims:
        claims.setdefault(topic, []).append(number)
    loads: dict[str, list[dict[str, int]]] = {}
    for partition in sorted({*extras.measured, *extras.held}):
        topic, number = partition
        loads.setdefault(topic, []).append({
            "partition": number,
            "measured": _in_thousandths(extras.measured.get(partition)),
            "held": _in_thousandths(extras.held.get(partition)),
        })  # fmt: skip
    values = {
        "claims": [{"topic": t, "partitions": numbers} for t, numbers in claims.items()],
        "generation": extras.generation,
        "loads": [{"topic": t, "partitions": rows} for t, rows in loads.items()],
    }
    body = encode(EXTRAS, values, version=0, path="userData")
    return (data or b"") + body + len(body).to_bytes(4, "big") + _MARKER


def split_trailer(data: bytes | None) -> tuple[bytes | None, Extras | None]:
    """Split a member's user data into the strategy's own bytes and the data that Partage appended.

    The second part is None if nothing valid was appended.

    >>> split_trailer(b"no trailer"), split_trailer(b"PTG1"), split_trailer(None)
    ((b'no trailer', None), (b'PTG1', None), (None, None))
    """
    start = trailer_start(data)
    if data is None or start < 0:
        return data, None
    reader = ByteReader(data[start:-_TAIL_BYTES])
    try:
        values = decode(EXTRAS, reader, version=0)
    except WireFormatError:
        return data, None
    if reader.remaining_bytes:
        return data, None
    return data[:start] or None, _extras(values)


def trailer_start(data: bytes | None) -> int:
    """Return the index at which the data that Partage appended begins in a member's user data.

    The result is -1 if nothing was appended.

    >>> trailer_start(append_trailer(b"own", Extras())), trailer_start(b"own")
    (3, -1)
    """
    # The last 8 bytes are the trailer's size and a marker.
    if data is None or len(data) < _TAIL_BYTES or data[-4:] != _MARKER:
        return -1
    return max(len(data) - _TAIL_BYTES - int.from_bytes(data[-_TAIL_BYTES:-4], "big"), -1)


def _extras(values: Mapping[str, Any]) -> Extras:
    loads: dict[str, dict[Partition, float]] = {"measured": {}, "held": {}}
    for row in values["loads"]:
        for entry in row["partitions"]:
            for name, by_partition in loads.items():
                if entry[name] >= 0:
                    by_partition[row["topic"], entry["partition"]] = entry[name] / _THOUSANDTHS
    claims = tuple((row["topic"], p) for row in values["claims"] for p in row["partitions"])
    return Extras(claims, values["generation"], loads["measured"], loads["held"])


def _in_thousandths(load: float | None) -> int:
    return _NO_LOAD if load is None else min(round(max(load, 0.0) * _THOUSANDTHS), 2**63 - 1)
