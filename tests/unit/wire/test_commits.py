"""Offset commits by the column: the engine's answer for every row, whatever the bytes."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_samples import recorded, unbase64, vectors

from partage import kernels
from partage.errors import WireFormatError
from partage.wire.columns import BinaryColumn, CodedColumn
from partage.wire.columns.commits import TOMBSTONE, decode_offset_commits
from partage.wire.group_log import decode_record, encode_record
from partage.wire.schema import UNKNOWN_TAGS


@pytest.fixture(autouse=True, params=["compiled", "interpreted"])
def form(request):
    """Every test with both forms of the kernel."""
    with kernels.force_kernel_form(request.param):
        yield request.param


def _is_commit(key):
    return key is not None and len(key) >= 2 and key[:2] in {b"\0\0", b"\0\1"}


def _agrees(rows):
    """Compare with the engine row by row; gives the columns."""
    made = decode_offset_commits(
        BinaryColumn.from_rows([key for key, _ in rows]),
        BinaryColumn.from_rows([value for _, value in rows]),
    )
    expected, errors = [], {}
    for place, (key, value) in enumerate(rows):
        if _is_commit(key):
            try:
                expected.append((place, decode_record(key, value)))
            except WireFormatError as error:
                errors[place] = str(error)
    assert made.row.tolist() == [place for place, _ in expected]
    assert {row: str(error) for row, error in made.errors.items()} == errors
    assert made.others.tolist() == [i for i, (key, _) in enumerate(rows) if not _is_commit(key)]
    for commit, (_, record) in enumerate(expected):
        assert made.decode_record(commit) == record
        _cells_agree(made, commit, record)
    return made


def test_keys_of_a_dictionary_are_read_once_and_say_the_same():
    """Rows whose keys are places in a dictionary, some null or damaged, give the same columns."""
    rng = random.Random(11)
    rows = [(key, value) for *_, key, value in recorded()[:3_000:5]]
    rows = [(None if rng.random() < 0.05 else _changed(k, rng) if rng.random() < 0.1 else k, v)
            for k, v in rows]  # fmt: skip
    names = list(dict.fromkeys(key for key, _ in rows if key is not None))
    names += names[:3]  # a dictionary may have a name twice
    places = {name: i for i, name in enumerate(names)}
    code = np.array([-1 if key is None else places[key] for key, _ in rows], np.int32)
    values = BinaryColumn.from_rows([value for _, value in rows])
    coded = decode_offset_commits(CodedColumn(BinaryColumn.from_rows(names), code), values)
    plain = _agrees(rows)
    for name in ("row", "pair", "partition", "key_version", "offset", "topic_id", "others"):
        assert getattr(coded, name).tolist() == getattr(plain, name).tolist(), name
    assert (coded.pairs, coded.topic_ids) == (plain.pairs, plain.topic_ids)
    assert {r: str(e) for r, e in coded.errors.items()} == {
        r: str(e) for r, e in plain.errors.items()
    }
    for made in (coded, plain):
        keys = list(zip(made.pair.tolist(), made.partition.tolist(), strict=True))
        assert len(set(zip(keys, made.series.tolist(), strict=True))) == len(set(keys))
        assert len(set(keys)) == len(set(made.series.tolist())) > 20


def _cells_agree(made, commit, record):
    """Each column says what the record says, defaults where it says nothing."""
    key, value = record.key, record.value or {}
    assert made.pairs[made.pair[commit]] == (key["group"], key["topic"])
    assert made.partition[commit] == key["partition"]
    assert made.key_version[commit] == record.key_version
    assert made.value_version[commit] == (
        TOMBSTONE if record.value is None else record.value_version
    )
    assert made.offset[commit] == value.get("offset", -1)
    assert made.leader_epoch[commit] == value.get("leaderEpoch", -1)
    assert made.commit_timestamp[commit] == value.get("commitTimestamp", -1)
    assert made.expire_timestamp[commit] == value.get("expireTimestamp", -1)
    assert made.commit_metadata(commit) == value.get("metadata", "")
    code = made.topic_id[commit]
    assert (made.topic_ids[code] if code >= 0 else None) == value.get("topicId")


def test_all_recorded_commits_agree_with_the_engine():
    """91,735 commits, tombstones among them, and 2,699 other records."""
    made = _agrees([(key, value) for *_, key, value in recorded()])
    assert (len(made), len(made.others), made.errors) == (91_735, 2_699, {})
    assert (made.value_version == TOMBSTONE).sum() == 43
    assert len(set(made.pairs)) == len(made.pairs) < 200


def test_all_vectors_agree_with_the_engine():
    """Kafka's vectors of every version, unknown tags and damaged ones too."""
    rows = [
        (unbase64(v["out"]["keyBytes"]), unbase64(v["out"]["valueBytes"]))
        for v in vectors("record")
    ]
    rows += [(unbase64(v["keyBytes"]), unbase64(v["valueBytes"])) for v in vectors("record-decode")]
    made = _agrees(rows)
    assert len(made) > 20
    assert made.errors


TEXT = st.text(max_size=5) | st.just("x" * 200)
SMALL = st.integers(-(2**31), 2**31 - 1)
LARGE = st.integers(-(2**63), 2**63 - 1)


@st.composite
def _commit(draw):
    """Key and value of a commit of any version, with what an odd one may have."""
    number = draw(st.sampled_from([0, 1, 1, 1]))
    key = {"group": draw(TEXT), "topic": draw(TEXT), "partition": draw(SMALL)}
    if draw(st.integers(0, 9)) == 0:
        return encode_record(number, key)
    version = 0 if number == 0 else draw(st.integers(0, 4))
    value = {"offset": draw(LARGE), "metadata": draw(TEXT), "commitTimestamp": draw(LARGE)}
    if number == 1:
        value |= {"leaderEpoch": draw(SMALL), "expireTimestamp": draw(LARGE)}
    if version == 4:
        value["topicId"] = draw(st.sampled_from(["A" * 22, "0q9296oPTEeomul5We-plg"]))
        value[UNKNOWN_TAGS] = draw(st.sampled_from([(), (), ((3, b"x"),)]))
    return encode_record(number, key, version=version, value=value)


@given(st.lists(_commit(), max_size=6), st.randoms(use_true_random=False))
def test_commits_of_every_version_agree_damaged_or_not(rows, rng):
    """Random commits, some of them cut or changed in a byte."""
    damaged = []
    for key, value in rows:
        damaged.append(
            (_changed(key, rng), _changed(value, rng)) if rng.random() < 0.5 else (key, value)
        )
    _agrees(damaged)


def _changed(data, rng):
    if not data or rng.random() < 0.3:
        return data
    place = rng.randrange(len(data))
    if rng.random() < 0.3:
        return data[:place]
    return data[:place] + bytes([rng.choice([0, 1, 2, 4, 0x7F, 0x80, 0xFF])]) + data[place + 1 :]


def test_many_damaged_commits_agree():
    """5,000 real commits, each changed in one byte or cut."""
    rng = random.Random(7)
    rows = [(key, value) for *_, key, value in recorded()[::19]]
    _agrees([(_changed(key, rng), _changed(value, rng)) for key, value in rows])


def test_null_empty_and_short_keys_are_other_rows():
    """What has no readable type is left to the engine, which refuses it by name."""
    made = _agrees([(None, b""), (b"", None), (b"\0", b""), (b"\0\1", None), (b"\0\3\0\1g", None)])
    assert made.others.tolist() == [0, 1, 2, 4]
    assert list(made.errors) == [3]
    assert len(decode_offset_commits(BinaryColumn.from_rows([]), BinaryColumn.from_rows([]))) == 0


def test_tables_that_grow_do_not_show(monkeypatch):
    """Numbers of commits, pairs and errors do not depend on the initial room of tables."""
    monkeypatch.setattr("partage.wire.columns.distinct.FIRST_NAMES", 4)
    rng = random.Random(3)
    rows = [(key, value) for *_, key, value in recorded()[:400]]
    _agrees([row if rng.random() < 0.8 else (row[0], _changed(row[1], rng)) for row in rows])


def test_slices_of_arrow_arrays_are_views():
    """Offset, validity bits and both widths of offsets, as Arrow hands them over."""
    import pyarrow as pa

    rows = [b"zero", None, b"", b"three", b"four", None, b"six"]
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array(rows, kind)[2:]
        column = BinaryColumn.from_buffers(
            array.buffers(), length=len(array), offset=array.offset, large=kind == pa.large_binary()
        )
        assert [column[i] for i in range(len(column))] == rows[2:]
    array = pa.array([b"a", b"b"])
    column = BinaryColumn.from_buffers(array.buffers(), length=2)
    assert column.valid is None
    assert (len(column), column[1]) == (2, b"b")


def test_columns_of_unequal_length_are_refused():
    """A programming error, said at once."""
    with pytest.raises(ValueError, match="1 keys, but 0 values"):
        decode_offset_commits(BinaryColumn.from_rows([b""]), BinaryColumn.from_rows([]))


def test_memory_stays_within_the_bound(form):
    """Columns and positions together: at most 1 KiB + 100 times keys and values, in a large batch."""
    count = 4_000 if form == "interpreted" else 40_000  # each step is traced: slow enough
    rows = [(key, value) for *_, key, value in recorded()[:count]]
    keys, values = (BinaryColumn.from_rows(list(side)) for side in zip(*rows, strict=True))
    size = len(keys.data) + len(values.data)
    tracemalloc.start()
    made = decode_offset_commits(keys, values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(made) > 0.75 * count
    assert peak <= 1024 + 100 * size
    assert np.all(made.row[1:] > made.row[:-1])
