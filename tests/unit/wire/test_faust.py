"""User data of Faust's workers: bytes there and back, and every way in which they can be wrong."""

from __future__ import annotations

import contextlib
import json
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import partage as pg
from partage.wire.faust import (
    LARGEST_METADATA,
    FaustMetadata,
    read_faust_assignment,
    read_faust_subscription,
    write_faust_assignment,
    write_faust_subscription,
)

# Printed by faust-streaming 0.15.3 (`ClientMetadata.dumps`).
PRINTED = (
    b'{"assignment":{"actives":{"b":[2,0],"a":[1]},"standbys":{}},"url":"http://x:6066/",'
    b'"changelog_distribution":{"u":{"t":[0]}},"external_topic_distribution":{},'
    b'"topic_groups":{"a":0}}'
)
SOUND = json.loads(PRINTED)

NAMES = st.text(max_size=8)
BY_TOPIC = st.dictionaries(NAMES, st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=3)
METADATA = st.builds(
    FaustMetadata,
    actives=BY_TOPIC,
    standbys=BY_TOPIC,
    url=NAMES,
    changelogs=st.dictionaries(NAMES, BY_TOPIC, max_size=2),
    others=st.dictionaries(NAMES, BY_TOPIC, max_size=2),
    groups=st.dictionaries(NAMES, st.integers(0, 9), max_size=2),
)


def test_bytes_are_those_that_faust_prints() -> None:
    """Order of keys, no blanks, and what was read is written again."""
    read = read_faust_subscription(PRINTED)
    assert read == FaustMetadata(
        {"b": [2, 0], "a": [1]}, {}, "http://x:6066/", {"u": {"t": [0]}}, {}, {"a": 0}
    )
    assert write_faust_subscription(read) == PRINTED
    assert zlib.decompress(write_faust_assignment(read)) == PRINTED


@given(metadata=METADATA)
def test_there_and_back(metadata) -> None:
    """Both forms, any names, any numbers."""
    assert read_faust_subscription(write_faust_subscription(metadata)) == metadata
    assert read_faust_assignment(write_faust_assignment(metadata)) == metadata


def without(*path):
    value = json.loads(PRINTED)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return value


def with_(value, *path):
    changed = json.loads(PRINTED)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (7, "userData at"), ([], "userData at"), (None, "userData at"),
        (without("assignment"), "userData.assignment"),
        (without("assignment", "standbys"), "userData.assignment.standbys"),
        (without("url"), "userData.url"),
        (without("changelog_distribution"), "userData.changelog_distribution"),
        (with_(None, "assignment"), "userData.assignment"),
        (with_(7, "url"), "userData.url"),
        (with_([], "assignment", "actives"), "userData.assignment.actives"),
        (with_({"t": "12"}, "assignment", "actives"), "userData.assignment.actives.t"),
        (with_({"t": [1.5]}, "assignment", "actives"), "userData.assignment.actives.t"),
        (with_({"t": [True]}, "assignment", "standbys"), "userData.assignment.standbys.t"),
        (with_({"t": [-1]}, "assignment", "standbys"), "userData.assignment.standbys.t"),
        (with_({"t": [2**31]}, "assignment", "standbys"), "userData.assignment.standbys.t"),
        (with_({"u": {"t": 0}}, "changelog_distribution"), "changelog_distribution.u.t"),
        (with_({"u": 1}, "external_topic_distribution"), "external_topic_distribution.u"),
        (with_({"t": "x"}, "topic_groups"), "topic_groups.t"),
    ],
)  # fmt: skip
def test_an_error_names_the_place(value, where) -> None:
    """A value of the wrong type, or none where one must be; in either form."""
    data = json.dumps(value).encode()
    with pytest.raises(pg.WireFormatError, match=where.replace(".", r"\.")):
        read_faust_subscription(data)
    with pytest.raises(pg.WireFormatError, match=where.replace(".", r"\.")):
        read_faust_assignment(zlib.compress(data))


def test_what_may_be_missing_may_be_missing() -> None:
    """As in Faust: distribution of other topics, topic groups (or null), and keys of tomorrow."""
    value = without("external_topic_distribution")
    value["topic_groups"] = None
    value["tomorrow"] = {"x": 1}
    read = read_faust_subscription(json.dumps(value).encode())
    assert (read.others, read.groups) == ({}, {})


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5000, b"NaN", PRINTED + b" x",
     PRINTED[:-1]],
)  # fmt: skip
def test_what_is_no_json_is_an_error(data) -> None:
    """Nothing, half of it, deep nests, endless numbers: one kind of error."""
    with pytest.raises(pg.WireFormatError, match="userData"):
        read_faust_subscription(data)


def test_a_bomb_takes_no_memory() -> None:
    """A hundred kilobytes that unpack to a hundred megabytes are refused at the limit."""
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b" " * 2**20) for _ in range(100)) + packer.flush()
    assert len(bomb) < 2**17
    tracemalloc.start()
    with pytest.raises(pg.WireFormatError, match="unpacks to more than"):
        read_faust_assignment(bomb)
    assert tracemalloc.get_traced_memory()[1] < 3 * LARGEST_METADATA
    tracemalloc.stop()


def test_any_cut_and_any_flipped_byte_is_read_or_refused() -> None:
    """Damage in either form: metadata, or a WireFormatError, nothing else."""
    rng = random.Random("faust user data")
    packed = zlib.compress(PRINTED)
    for _ in range(1500):
        for data, read in ((PRINTED, read_faust_subscription), (packed, read_faust_assignment)):
            damaged = bytearray(data[: rng.randint(0, len(data))] if rng.random() < 0.3 else data)
            for _ in range(rng.randint(0, 3)):
                if damaged:
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            with contextlib.suppress(pg.WireFormatError):
                assert isinstance(read(bytes(damaged)), FaustMetadata)
