"""Joins of topics: reasons why equal keys are not in equal partitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from partage.keys.audit.client_names import find_clients, hash_name, label_clients
from partage.keys.audit.evidence import KeyPairs
from partage.keys.audit.writers import InferredWriters

__all__ = ["FRAMED", "HEADER", "READINGS", "JoinProblem", "JoinSide", "broken_joins", "decode_keys"]

#: The reading of keys behind a registry's header, and the bytes of that: magic byte, schema id.
FRAMED, HEADER = "Avro with registry header", 5
#: A schema has this share of a topic's keys at least, or the bytes are no schema id.
_OF_A_SCHEMA = 0.01

#: Meaning of a key, independent of its serializer; None if the bytes have no such meaning.
_Meaning = str | None


def _text(key: bytes) -> _Meaning:
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and text else None


def _normalize_json(key: bytes) -> _Meaning:
    """Convert a JSON key to text that is equal for equal JSON values.

    Spacing and the order of object fields are removed. None if the key is not a JSON string, object
    or array.
    """
    if key[:1] not in b'"{[' or not key:
        return None
    try:
        value = json.loads(key)
        if isinstance(value, str):
            return value
        # The text has no spacing, and object fields are sorted.
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):  # a thousand brackets are some key, and no JSON of ours
        return None


def _number(size: int) -> Callable[[bytes], _Meaning]:
    def read(key: bytes) -> _Meaning:
        return str(int.from_bytes(key, "big", signed=True)) if len(key) == size else None

    return read


def _uuid(key: bytes) -> _Meaning:
    if len(key) != 16:
        return None
    digits = key.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _decode_registry_payload(key: bytes) -> _Meaning:
    """Decode a record key that begins with the header of Confluent's schema registry.

    An Avro string or long becomes text, any other payload hexadecimal digits. None if the key has
    no such header.
    """
    if len(key) < 6 or key[0]:
        return None
    # The header is a zero byte and a schema id of 4 bytes.
    body = key[5:]
    value, used = _decode_zigzag(body)
    if used and used == len(body):
        return str(value)
    if used and value == len(body) - used:
        return _text(body[used:])
    return "avro:" + body.hex()


def _decode_zigzag(body: bytes) -> tuple[int, int]:
    """Decode the Avro long (a zigzag varint) at the start of a byte string.

    Avro encodes int and long in this form, and the length of a string.

    Returns:
        the number, and how many bytes it takes (0 if it is malformed).
    """
    value = 0
    for i, byte in enumerate(body[:10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), i + 1
    return 0, 0


#: Name -> function that returns the meaning of a key, None if it has none.
READINGS: dict[str, Callable[[bytes], _Meaning]] = {
    "text": _text,
    "JSON": _normalize_json,
    "int (4 bytes)": _number(4),
    "long (8 bytes)": _number(8),
    "UUID (16 bytes)": _uuid,
    FRAMED: _decode_registry_payload,
}


def decode_keys(keys: Sequence[bytes], serializer: str) -> dict[str, bytes]:
    r"""Decode the keys of a topic with one serializer, to compare them with another topic's keys.

    Keys that this serializer cannot have written are left out.

    Args:
        keys: the serialized keys.
        serializer: its name, such as "int (4 bytes)".

    Returns:
        a dict from the decoded value (as text) to the first key with that value.

    >>> decode_keys([b"7", b"\x00\x00\x00\x07"], "int (4 bytes)")
    {'7': b'\x00\x00\x00\x07'}
    """
    read = READINGS[serializer]
    out: dict[str, bytes] = {}
    for key in _keys_of_common_schemas(keys) if serializer == FRAMED else keys:
        meaning = read(key)
        if meaning is not None:
            out.setdefault(meaning, key)
    return out


def _keys_of_common_schemas(keys: Sequence[bytes]) -> list[bytes]:
    # Rare ids are numbers that happen to begin with a zero byte.
    framed = [key for key in keys if key[:1] == b"\0"]
    times = Counter(key[1:HEADER] for key in framed)
    least = _OF_A_SCHEMA * len(keys)
    return [key for key in framed if times[key[1:HEADER]] >= least]


_EXAMPLES = 5
#: Fewest common keys under another reading for a report of different serializers.
_FEWEST_COMMON = 10
#: Required ratio to the number expected by chance.
_MORE_THAN_CHANCE = 4


@dataclass(frozen=True, slots=True, eq=False)
class JoinSide:
    """Topic on one side of a join: its partition count, keys, and the partitioners that wrote it.

    Two such topics are compared to explain why equal keys are in partitions with different numbers,
    so that the join misses records.

    Attributes:
        topic: the topic's name.
        partitions: its current partition count; a lower bound if ``counted`` is False.
        seen: the observed distinct (key, partition) pairs.
        inferred: the partitioners that probably wrote its records.
        counted: whether ``partitions`` is exact.
    """

    topic: str
    partitions: int
    seen: KeyPairs
    inferred: InferredWriters
    counted: bool = True

    def surely_differs(self, other_side: JoinSide) -> bool:
        """Return whether the two topics of a join certainly have different partition counts.

        A count may be only a lower bound: "at least 8" differs from 4 but not from 12.
        """
        if self.counted and other_side.counted:
            return self.partitions != other_side.partitions
        if self.counted or other_side.counted:
            known, least = (self, other_side) if self.counted else (other_side, self)
            return least.partitions > known.partitions
        return False


@dataclass(frozen=True, slots=True)
class JoinProblem:
    """Reason why a join of two topics misses records that have the same key.

    Such a join needs equal keys in partitions with the same number, and here they are in different
    ones.

    Attributes:
        kind: ``partition counts``, ``partitioners``, ``serializers`` or ``keys apart`` (cause
            unknown).
        topics: the names of the two topics.
        words: description of the difference.
        examples: (key in the first topic, its partitions, key in the second, its partitions).
        partitioners: for different partitioners, the names of those of each topic.
    """

    kind: str
    topics: tuple[str, str]
    words: str
    examples: tuple[tuple[bytes, tuple[int, ...], bytes, tuple[int, ...]], ...] = ()
    partitioners: tuple[tuple[str, ...], ...] = ()


def broken_joins(sides: Sequence[JoinSide]) -> list[JoinProblem]:
    """Find the reasons why joins by key between topics would miss records with equal keys.

    A join needs equal keys in partitions with the same number. Each pair of topics is checked; the
    result is empty if no reason is found. ``sides`` are the topics with their keys.

    >>> seen = KeyPairs.from_rows([(b"k", 0)])
    >>> import numpy as np
    >>> few = InferredWriters("too few keys", (), 0.0, 1, np.zeros((0, 1), np.bool_))
    >>> [b.words for b in broken_joins([JoinSide("a", 3, seen, few), JoinSide("b", 4, seen, few)])]
    ['a has 3 partitions, b has 4']
    """
    out: list[JoinProblem] = []
    for first, second in combinations(sides, 2):
        out += _compare(first, second)
    return out


def _compare(first: JoinSide, second: JoinSide) -> Iterator[JoinProblem]:
    topics = (first.topic, second.topic)
    counts_differ = first.surely_differs(second)
    if counts_differ:
        counts = [
            f"{side.topic} has {'' if side.counted else 'at least '}{side.partitions}"
            for side in (first, second)
        ]
        yield JoinProblem("partition counts", topics, f"{counts[0]} partitions, {counts[1]}")
    placed, placed_2 = _partitions_by_key(first.seen), _partitions_by_key(second.seen)
    common = [key for key in placed if key in placed_2]
    apart = [key for key in common if placed[key] != placed_2[key]]
    examples = tuple((k, placed[k], k, placed_2[k]) for k in apart[:_EXAMPLES])
    writers = _describe_different_writers(first, second)
    if writers is not None:
        families = (*first.inferred.writer_families, *second.inferred.writer_families)
        names = tuple(dict.fromkeys(family.partitioners for family in families))
        yield JoinProblem("partitioners", topics, writers, examples, names)
    elif apart and not counts_differ:
        words = f"{len(apart):,} of {len(common):,} common keys lie in other partitions"
        yield JoinProblem("keys apart", topics, words, examples)
    yield from _compare_serializers(topics, placed, placed_2, len(common))


def _partitions_by_key(pairs: KeyPairs) -> dict[bytes, tuple[int, ...]]:
    out: dict[bytes, tuple[int, ...]] = {}
    for key, p in zip(pairs.keys, pairs.partition.tolist(), strict=True):
        out[key] = tuple(sorted({*out.get(key, ()), p}))
    return out


def _describe_different_writers(first: JoinSide, second: JoinSide) -> str | None:
    """Describe the difference between the partitioners that wrote two topics.

    The result is None if the partitioners are the same or unknown. Then they do not explain why a
    join of the topics misses records.
    """
    sides = (first, second)
    found, found_2 = ({family.name for family in side.inferred.writer_families} for side in sides)
    rivals, rivals_2 = (
        {rival.name for writer in side.inferred.writers for rival in writer.rivals}
        for side in sides
    )
    if not found or not found_2:
        return None
    if found <= found_2 | rivals_2 and found_2 <= found | rivals:
        return None
    return "written " + ", ".join(
        f"{side.topic} by {' and '.join(_writer_labels(side))}" for side in sides
    )


def _writer_labels(side: JoinSide) -> list[str]:
    return [
        label_clients(find_clients(f.partitioners), hash_name(f.partitioners), f.part.description)
        for f in side.inferred.writer_families
    ]


def _compare_serializers(
    topics: tuple[str, str],
    first_partitions: dict[bytes, tuple[int, ...]],
    second_partitions: dict[bytes, tuple[int, ...]],
    common: int,
) -> Iterator[JoinProblem]:
    """Yield a problem if the producers of two topics serialize equal keys differently.

    An example is 42 as text in one topic, and as a 4-byte int in the other. At most one problem is
    yielded.

    Args:
        topics: the names of the two topics.
        first_partitions: dict from each key of the first topic to its partitions.
        second_partitions: dict from each key of the second topic to its partitions.
        common: number of keys with equal bytes in both topics.
    """
    # All keys are decoded with each known serializer; the two with the most equal decoded keys
    # count.
    best: tuple[int, str, str, list[tuple[bytes, bytes]]] | None = None
    decoded = {reading: decode_keys(list(first_partitions), reading) for reading in READINGS}
    decoded_2 = {reading: decode_keys(list(second_partitions), reading) for reading in READINGS}
    for a, keys in decoded.items():
        for b, keys_2 in decoded_2.items():
            same = [(keys[m], keys_2[m]) for m in keys if m in keys_2 and keys[m] != keys_2[m]]
            if len(same) <= (best[0] if best else 0):
                continue
            expected = _expected_by_chance(same, len(keys) * len(keys_2), (a, b))
            if len(same) >= _MORE_THAN_CHANCE * expected:
                best = (len(same), a, b, same)
    if best is None or best[0] < _FEWEST_COMMON or best[0] <= common:
        return
    count, a, b, same = best
    how = f"{topics[0]} writes {a}, {topics[1]} writes {b}" if a != b else f"both write {a}"
    words = f"{count:,} keys are the same and written otherwise: {how}"
    examples = tuple((k, first_partitions[k], q, second_partitions[q]) for k, q in same[:_EXAMPLES])
    yield JoinProblem("serializers", topics, words, examples)


def _expected_by_chance(
    coinciding: list[tuple[bytes, bytes]], pairs: int, serializers: tuple[str, str]
) -> float:
    """Return how many equal keys two topics are expected to have by chance alone.

    Decoding a key with a wrong serializer may give a value of the other topic. If the observed
    number of equal keys is not much higher, they prove nothing.

    Args:
        coinciding: pairs of keys, one of each topic, with the same decoded value.
        pairs: number of all pairs of a key of each topic.
        serializers: the serializers with which the keys of the two topics were decoded.
    """
    # Short keys coincide often: an 8-byte number that is mistaken for a key with schema registry
    # header (5 bytes) has only three bytes left.
    bodies = sorted(
        len(pair[i]) - HEADER for pair in coinciding for i in (0, 1) if serializers[i] == FRAMED
    )
    return pairs / 256.0 ** bodies[len(bodies) // 2] if bodies else 0.0
