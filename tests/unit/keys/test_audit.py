"""Who wrote a topic, which keys are in two partitions, and which joins are broken."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.jobs.audit.topics import known_families
from partage.keys.audit import (
    JoinSide,
    KeyPairs,
    PartitionerFamily,
    broken_joins,
    count_split_keys,
    group_equivalent_partitioners,
    infer_writers,
    null_keys,
)
from partage.keys.audit.client_names import advise_settings, find_clients, hash_name
from partage.keys.audit.evidence import KeyPart, log_chance
from partage.keys.audit.joins import decode_keys


def _adler(key: bytes) -> int:
    """A second hash that has nothing to do with the first (crc of the key turned around)."""
    return zlib.crc32(key[::-1] + b"!")


_HASHES = {"crc": zlib.crc32, "other": _adler, "crc too": zlib.crc32}


def place(name: str, keys: Sequence[bytes], partitions: int) -> NDArray[np.int32]:
    """Stands for the partitioners: two hashes, one of them under two names."""
    return np.array([_HASHES[name](k) % partitions for k in keys], np.int32)


FAMILIES = group_equivalent_partitioners(_HASHES, place, windowed=["crc"])
KEYS = [f"customer-{i}".encode() for i in range(400)]


def _written(name: str, partitions: int, keys: Sequence[bytes] = KEYS, at: int = 0) -> list:
    where = place(name, keys, partitions).tolist()
    return [(k, p, at + i) for i, (k, p) in enumerate(zip(keys, where, strict=True))]


def test_families_are_found_by_running() -> None:
    """Partitioners that agree everywhere are one family, whatever they are called."""
    whole = [f for f in FAMILIES if f.part is KeyPart.WHOLE]
    assert [f.partitioners for f in whole] == [("crc", "crc too"), ("other",)]
    assert {f.part for f in FAMILIES if f.name.startswith("crc")} == set(KeyPart)


@pytest.mark.parametrize("name", ["crc", "other"])
@pytest.mark.parametrize("partitions", [2, 3, 12, 100])
def test_one_writer_is_named(name: str, partitions: int) -> None:
    """A topic that one partitioner wrote gets its name, and nothing is left to explain."""
    verdict = infer_writers(
        KeyPairs.from_rows(_written(name, partitions)), [partitions], FAMILIES, place
    )
    assert (verdict.status, verdict.explained) == ("named", 1.0)
    assert [f.name for f in verdict.writer_families] == [name]
    assert verdict.writers[0].rivals == ()


def test_a_topic_that_grew_has_one_family_at_two_counts() -> None:
    """Records from before and after a growth are one family's, and its keys are split by it."""
    seen = KeyPairs.from_rows(_written("crc", 4) + _written("crc", 7, at=10_000))
    verdict = infer_writers(seen, [4, 7], FAMILIES, place)
    assert verdict.status == "named"
    assert [(w.family.name, w.partitions) for w in verdict.writers] == [("crc", 4), ("crc", 7)]
    assert verdict.writers[1].first_ms >= 10_000
    split = count_split_keys(seen, verdict)
    assert split.keys == split.grew > 100


def test_the_second_writer_is_dated() -> None:
    """Two writers are both named, and the later one's arrival is that of its first own key."""
    seen = KeyPairs.from_rows(_written("crc", 12) + _written("other", 12, at=50_000))
    verdict = infer_writers(seen, [12], FAMILIES, place)
    assert verdict.status == "mixed"
    assert [f.name for f in verdict.writer_families] == ["crc", "other"]
    assert 50_000 <= verdict.writers[1].first_ms < 50_010
    split = count_split_keys(seen, verdict)
    assert split.keys == split.writers > 300
    assert split.examples[0].seen[0][2] < split.examples[0].seen[1][2]


def test_a_stray_record_does_not_date_a_writer() -> None:
    """An explicit partition years earlier that happens to fit is not taken for its arrival."""
    rng = random.Random(3)
    strays = [(f"s{i}".encode(), rng.randrange(6), -1_000_000 + i) for i in range(40)]
    seen = KeyPairs.from_rows(strays + _written("crc", 6) + _written("other", 6, at=50_000))
    verdict = infer_writers(seen, [6], FAMILIES, place)
    assert [f.name for f in verdict.writer_families] == ["crc", "other"]
    assert verdict.writers[0].first_ms >= 0
    assert verdict.writers[1].first_ms >= 50_000
    assert verdict.explained < 1


def test_windowed_keys_are_hashed_without_their_window() -> None:
    """Keys of Streams' windows lie where the key alone would, and the family says so."""
    keys = [k + struct.pack(">q", i) for i, k in enumerate(KEYS)]
    where = place("crc", KEYS, 9).tolist()
    seen = KeyPairs.from_rows(list(zip(keys, where, strict=True)))
    verdict = infer_writers(seen, [9], FAMILIES, place)
    assert [f.part for f in verdict.writer_families] == [KeyPart.WINDOWED]


def test_false_alarms_are_rare() -> None:
    """Of 2,000 random topics none is given a writer (the bound is one in ten thousand)."""
    rng = random.Random(7)
    for _ in range(2_000):
        n, size = rng.choice([2, 3, 6, 48]), rng.choice([30, 60, 200])
        seen = KeyPairs.from_rows(
            [(b"%d" % rng.randrange(10**6), rng.randrange(n)) for _ in range(size)]
        )
        assert infer_writers(seen, [n], FAMILIES, place).writers == ()


def test_a_lopsided_topic_and_a_lopsided_hash_are_no_writer() -> None:
    """A hash that puts all keys into one partition names nobody where most keys lie there anyway."""
    rng = random.Random(11)

    def lopsided(_name: str, keys: Sequence[bytes], n: int) -> NDArray[np.int32]:
        return np.array([8 * len(k) % n for k in keys], np.int32)

    where = rng.choices(range(8), [30, 21, 15, 10, 8, 6, 5, 5], k=400)
    seen = KeyPairs.from_rows(list(zip(KEYS, where, strict=True)))
    assert infer_writers(seen, [8], [PartitionerFamily(("hash",))], lopsided).writers == ()
    honest = KeyPairs.from_rows([(k, zlib.crc32(k) % 8) for k in KEYS])
    assert infer_writers(honest, [8], FAMILIES, place).writer_families[0].name == "crc"


def test_an_undecidable_topic_has_a_status() -> None:
    """One partition fits every family, and few keys fit too many."""
    assert (
        infer_writers(KeyPairs.from_rows(_written("crc", 1)), [1], FAMILIES, place).status
        == "one partition"
    )
    few = KeyPairs.from_rows(_written("crc", 3, KEYS[:29]))
    assert infer_writers(few, [3], FAMILIES, place).status == "too few keys"


def test_rivals_are_named() -> None:
    """Where the keys fit two families alike, the other one is a rival and not silently dropped."""

    def close(name: str, keys: Sequence[bytes], n: int) -> NDArray[np.int32]:
        out = place("crc", keys, n)
        return np.where([k == b"customer-3" for k in keys], 0, out) if name == "twin" else out

    both = [PartitionerFamily(("crc",)), PartitionerFamily(("twin",))]
    verdict = infer_writers(KeyPairs.from_rows(_written("crc", 5)), [5], both, close)
    (writer,) = verdict.writers
    assert {writer.family.name, *(r.name for r in writer.rivals)} == {"crc", "twin"}


def test_keyless_records() -> None:
    """Sticky, round robin, drawn and constant partitions are distinguished, but not with few records."""
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 6, 500).astype(np.int32)
    assert null_keys(drawn, 6).behaviour == "drawn for each record"
    assert null_keys(np.repeat(drawn[:40], 12), 6).behaviour == "sticky"
    assert null_keys((np.arange(500) % 6).astype(np.int32), 6).behaviour == "round robin"
    assert null_keys(np.full(50, 4, np.int32), 6).behaviour == "one partition"
    assert null_keys(drawn[:29], 6).behaviour == "too few records"
    assert null_keys(np.zeros(50, np.int32), 1).behaviour == "one partition only"


def _side(topic: str, name: str, partitions: int, keys: Sequence[bytes] = KEYS) -> JoinSide:
    seen = KeyPairs.from_rows(_written(name, partitions, keys))
    return JoinSide(topic, partitions, seen, infer_writers(seen, [partitions], FAMILIES, place))


def test_a_join_that_holds() -> None:
    """Same keys, count and partitioner: nothing to say."""
    assert broken_joins([_side("a", "crc", 6), _side("b", "crc", 6)]) == []


def test_a_join_broken_by_partitioner() -> None:
    """Another partitioner is named, with keys that lie apart as examples."""
    (found,) = broken_joins([_side("a", "crc", 6), _side("b", "other", 6)])
    assert found.kind == "partitioners"
    assert found.words == "written a by crc, b by other"
    key, here, again, there = found.examples[0]
    assert key == again
    assert here != there


def test_a_join_broken_by_count() -> None:
    """Another partition count is named, not also the keys that lie apart because of it."""
    assert [b.kind for b in broken_joins([_side("a", "crc", 6), _side("b", "crc", 8)])] == [
        "partition counts"
    ]


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (lambda i: b"%d" % i, lambda i: struct.pack(">q", i), ("text", "long (8 bytes)")),
        (lambda i: b"%d" % i, lambda i: struct.pack(">i", i), ("text", "int (4 bytes)")),
        (lambda i: b"k%d" % i, lambda i: b'"k%d"' % i, ("text", "JSON")),
        (
            lambda i: b"k%02d" % i,
            lambda i: b"\0\0\0\0\x07\x06k%02d" % i,
            ("text", "Avro with registry header"),
        ),
        (
            lambda i: b'{"a":%d,"b":1}' % i,
            lambda i: b'{"b": 1, "a": %d}' % i,
            ("JSON", "JSON"),
        ),
    ],
)
def test_a_join_broken_by_serializer(one, other, names) -> None:
    """The same keys in other bytes are found by reading them as what they may be."""
    left, right = [one(i) for i in range(60)], [other(i) for i in range(60)]
    found = broken_joins([_side("a", "crc", 6, left), _side("b", "crc", 6, right)])
    assert [b.kind for b in found] == ["serializers"]
    for name in names:
        assert name in found[0].words
    assert found[0].examples[0][0] != found[0].examples[0][2]


def test_chance_is_an_upper_bound() -> None:
    """The bound is never below the true tail of the binomial distribution."""
    from math import comb, log

    for n, p in ((10, 0.5), (40, 1 / 12), (7, 1 / 3)):
        for k in range(n + 1):
            tail = sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
            assert log_chance(k, n, p) >= log(tail) - 1e-9


def test_damaged_pairs() -> None:
    """Columns that do not fit together, and negative partitions, are refused by name."""
    with pytest.raises(InvalidProblemError, match="negative"):
        KeyPairs.from_rows([(b"a", -1)])
    one = np.ones(1, np.int64)
    with pytest.raises(InvalidProblemError, match="length"):
        KeyPairs([b"a"], np.zeros(2, np.int32), one, one, one)


def test_a_count_that_nobody_knows_breaks_no_join() -> None:
    """Of partitions seen the last may be empty: a count is at least so many, and blamed only where
    it cannot be the other's.
    """
    keys = [(k, 5) for k in KEYS[:40]]
    seen = KeyPairs.from_rows(keys)
    verdict = infer_writers(seen, [1], FAMILIES, place)

    def kinds(one: tuple[int, bool], other: tuple[int, bool]) -> list[str]:
        sides = [JoinSide(name, count, seen, verdict, known)
                 for name, (count, known) in zip("ab", (one, other), strict=True)]  # fmt: skip
        return [b.words for b in broken_joins(sides)]

    assert kinds((23, False), (24, True)) == []
    assert kinds((23, False), (24, False)) == []
    assert kinds((25, False), (24, True)) == ["a has at least 25 partitions, b has 24"]
    assert kinds((24, True), (25, False)) == ["a has 24 partitions, b has at least 25"]
    assert kinds((23, True), (24, True)) == ["a has 23 partitions, b has 24"]


def test_numbers_that_begin_with_a_zero_are_no_frames() -> None:
    """Two topics of unlike 8-byte numbers: no schema id is read into them, and no key is the same."""
    rng = random.Random(2)
    sides = []
    for name, base in (("a", 1 << 50), ("b", 1 << 51)):
        keys = [rng.randrange(1 << 40, 1 << 52).to_bytes(8, "big") for _ in range(3_000)]
        low = [(base + rng.randrange(1 << 24)).to_bytes(8, "big") for _ in range(20_000)]
        sides.append(_side(name, "crc", 12, [*keys, *low]))
    assert broken_joins(sides) == []


def test_a_key_of_many_brackets_is_no_json() -> None:
    """A key that is too deep for a parser is read as nothing, and stops no audit."""
    assert decode_keys([b"[" * 5_000, b"[1]"], "JSON") == {"[1]": b"[1]"}


def test_keyless_records_in_turns() -> None:
    """Turns in any order of the partitions, or of two producers, are turns; what depends on the
    records before it is not called drawn; what was drawn is.
    """
    order = np.array([3, 0, 5, 1, 6, 2, 4], np.int32)
    assert null_keys(order[np.arange(700) % 7], 7).behaviour == "round robin"
    two = np.stack([np.arange(700) % 7, (np.arange(700) + 3) % 7], axis=1).reshape(-1)
    assert null_keys(two.astype(np.int32), 7).behaviour == "round robin"
    rng = np.random.default_rng(4)
    never_twice = np.cumsum(rng.integers(1, 7, 2_000)) % 7
    assert null_keys(never_twice.astype(np.int32), 7).behaviour == "in some other way"
    drawn = [null_keys(rng.integers(0, 7, 500).astype(np.int32), 7) for _ in range(50)]
    assert {(one.behaviour, one.log10_chance) for one in drawn} == {("drawn for each record", 0.0)}
    assert null_keys(np.arange(100, dtype=np.int32) % 7, 7).log10_chance < -20


def test_records_of_one_millisecond_have_no_order() -> None:
    """Drawn records that share times are drawn, although a partition's offsets make them look kept;
    what is kept to one partition for a while is kept.
    """
    rng = np.random.default_rng(7)
    at = np.sort(rng.integers(0, 220, 1_046))
    drawn = rng.integers(0, 12, 1_046).astype(np.int32)
    by_offset = np.lexsort((drawn, at))
    assert null_keys(drawn[by_offset], 12).behaviour == "sticky"  # what must not be said
    for seed in range(20):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(0, 12, 1_046).astype(np.int32)
        found = null_keys(drawn[np.lexsort((drawn, at))], 12, at)
        assert found.behaviour == "drawn for each record", seed
    kept = np.repeat(rng.integers(0, 12, 105), 10)[:1_046].astype(np.int32)
    assert null_keys(kept, 12, at).behaviour == "sticky"
    assert null_keys(np.full(1_046, 3, np.int32), 12, at).behaviour == "one partition"


def test_clients_of_every_family_are_named() -> None:
    """Each family that may be found has clients that a user knows, and a way to agree with Java."""
    for family in known_families():
        clients = find_clients(family.partitioners)
        assert not set(clients) & set(family.partitioners) - {"kafka-python", "aiokafka"}
        assert hash_name(family.partitioners) not in family.partitioners or (
            "murmur2" in family.partitioners
        )
        if "murmur2" not in family.partitioners and any(
            one.startswith(("librdkafka", "sarama", "scala")) for one in family.partitioners
        ):
            assert advise_settings([family.partitioners, ["murmur2"]]).startswith("set ")
