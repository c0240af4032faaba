r"""What members of ours tell each other behind a strategy's own user data.

A client that gives everything up before it joins (EAGER) has no owned partitions to send, and no
client sends loads. Strategies that nobody but us has (`optimal`, `failover` that does not take
over, ``server:``) get both as a trailer, so that a reader who looks at the beginning of the user
data, as the documented fail-over assignor does, sees what it would see without:

    the strategy's own user data
    body of `EXTRAS`              claims with their generation; loads by partition
    int32  length of the body
    int32  marker                 0x50544731, "PTG1": format and its version in one

Loads are int64, in thousandths of whatever they measure; -1 stands for "none".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from partage.errors import WireFormatError
from partage.wire.codec import decode, encode
from partage.wire.primitives import Reader
from partage.wire.schema import Field, Message

__all__ = ["EXTRAS", "Extras", "split", "with_extras"]

_MARKER = b"PTG1"
_TAIL = 8
_NONE = -1
_THOUSANDTHS = 1000

Partition = tuple[str, int]

EXTRAS = Message(
    "PartageExtras",
    kind="data",
    valid="0",
    flexible="none",
    fields=(
        Field(
            "claims",
            "[]TopicClaims",
            "0+",
            fields=(Field("topic", "string", "0+"), Field("partitions", "[]int32", "0+")),
        ),
        Field("generation", "int32", "0+", default=-1),
        Field(
            "loads",
            "[]TopicLoads",
            "0+",
            fields=(
                Field("topic", "string", "0+"),
                Field(
                    "partitions",
                    "[]PartitionLoad",
                    "0+",
                    fields=(
                        Field("partition", "int32", "0+"),
                        Field("measured", "int64", "0+", default=-1),
                        Field("held", "int64", "0+", default=-1),
                    ),
                ),
            ),
        ),
    ),
)


@dataclass(frozen=True)
class Extras:
    """The trailer's content.

    Attributes:
        claims: what the member had before it gave everything up.
        generation: of the claims; -1 for none.
        measured: load of partitions, as the member measured it.
        held: the load that the last plan counted with (see `partage.weights`).
    """

    claims: tuple[Partition, ...] = ()
    generation: int = -1
    measured: Mapping[Partition, float] = field(default_factory=dict, hash=False)
    held: Mapping[Partition, float] = field(default_factory=dict, hash=False)


def with_extras(data: bytes | None, extras: Extras) -> bytes:
    """The strategy's own user data with the trailer behind it.

    Raises:
        EncodingError: a name or a number does not fit.

    >>> split(with_extras(b"own", Extras((("t", 1),), 4)))
    (b'own', Extras(claims=(('t', 1),), generation=4, measured={}, held={}))
    """
    loads: dict[str, list[dict[str, Any]]] = {}
    for topic, number in sorted({*extras.measured, *extras.held}):
        one = (topic, number)
        row = {"measured": _sent(extras.measured, one), "held": _sent(extras.held, one)}
        loads.setdefault(topic, []).append({"partition": number, **row})
    values = {
        "claims": [{"topic": t, "partitions": n} for t, n in _by_topic(extras.claims).items()],
        "generation": extras.generation,
        "loads": [{"topic": t, "partitions": rows} for t, rows in loads.items()],
    }
    body = encode(EXTRAS, values, version=0, path="userData")
    return (data or b"") + body + len(body).to_bytes(4, "big") + _MARKER


def split(data: bytes | None) -> tuple[bytes | None, Extras | None]:
    """The strategy's own user data, and the trailer; None where there is none that can be read.

    >>> split(b"no trailer"), split(b"PTG1"), split(None)
    ((b'no trailer', None), (b'PTG1', None), (None, None))
    """
    if data is None or len(data) < _TAIL or data[-4:] != _MARKER:
        return data, None
    start = len(data) - _TAIL - int.from_bytes(data[-_TAIL:-4], "big")
    if start < 0:
        return data, None
    reader = Reader(data[start:-_TAIL])
    try:
        values = decode(EXTRAS, reader, version=0)
    except WireFormatError:
        return data, None
    if reader.left:
        return data, None
    return data[:start] or None, _extras(values)


def _extras(values: Mapping[str, Any]) -> Extras:
    measured: dict[Partition, float] = {}
    held: dict[Partition, float] = {}
    for row in values["loads"]:
        for one in row["partitions"]:
            for name, into in (("measured", measured), ("held", held)):
                if one[name] >= 0:
                    into[row["topic"], one["partition"]] = one[name] / _THOUSANDTHS
    claims = tuple((row["topic"], p) for row in values["claims"] for p in row["partitions"])
    return Extras(claims, values["generation"], measured, held)


def _sent(loads: Mapping[Partition, float], one: Partition) -> int:
    value = loads.get(one)
    return _NONE if value is None else min(round(max(value, 0.0) * _THOUSANDTHS), 2**63 - 1)


def _by_topic(claims: Iterable[Partition]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for topic, number in claims:
        out.setdefault(topic, []).append(number)
    return out
