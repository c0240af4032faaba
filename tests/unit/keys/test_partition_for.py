"""`partition_for`: every form of keys, states that go in and come out, and bad input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partage as pg
from partage import kernels
from partage.errors import InvalidConfigError, InvalidKeysError, UnknownPartitionerError
from partage.keys import by_key, partitioners, start
from partage.keys.clients.scala import forget_partition
from partage.keys.hashing import CRC32, FNV1A, JAVA_BYTES, JAVA_STRING, MURMUR2, hash_all

KEYS = [b"foobar", None, b"", b"21", b"\xff\x80\x00\x7f", b"abc\0", "é".encode(), b"k" * 70]
AT_10 = [6, -1, 1, 0, 0]


def placed(keys, n=10, name="murmur2"):
    return pg.partition_for(keys, partitions=n, partitioner=name)


def expected(keys, n=10, name="murmur2"):
    """One key at a time, by the plain form of the hash."""
    rule = pg.keys.registry.find_partitioner(name).rule
    return [None if key is None else rule.place_key(key, n) for key in keys]


def test_published_hashes_are_met() -> None:
    """Values of Kafka's own test of murmur2, of FNV's and CRC's authors, and of Java's strings."""
    signed = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
              b"a-little-bit-longer-string": -1486304829, b"abc": 479470107, b"": 275646681,
              b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
              bytes([0xFF, 0x80, 0, 0x7F]): -301591868, bytes([0, 0, 0, 0, 0xFF]): -1412761261}  # fmt: skip
    assert {key: MURMUR2.hash_key(key) for key in signed} == {
        key: value % 2**32 for key, value in signed.items()
    }
    assert FNV1A.hash_key(b"foobar") == 0xBF9CF968
    assert CRC32.hash_key(b"123456789") == 0xCBF43926
    assert JAVA_STRING.hash_key("hello€".encode()) == (99162322 * 31 + 0x20AC) % 2**32
    assert JAVA_BYTES.hash_key(b"\x00") == 31


def test_list_and_numpy_give_int32_with_minus_one_for_null() -> None:
    """A list, object and S arrays and rows of uint8 give the same partitions, as int32."""
    out = placed(KEYS[:5])
    assert out.dtype == np.int32
    assert out.tolist() == AT_10
    assert placed(np.array(KEYS[:5], object)).tolist() == AT_10
    assert placed(np.array([b"foobar", b"21", b""])).tolist() == [6, 0, 1]
    assert placed(np.frombuffer(b"foobarfoobaz", np.uint8).reshape(2, 6)).tolist() == expected(
        [b"foobar", b"foobaz"]
    )
    assert placed(np.array([b"abc\0"], "V4")).tolist() == expected([b"abc\0"])
    assert placed(np.array(["é", "foobar"])).tolist() == [*expected(["é".encode()]), 6]
    assert placed(b"foobar").tolist() == [6]
    assert placed([bytearray(b"foobar"), memoryview(b"foobar"), "foobar"]).tolist() == [6, 6, 6]
    assert placed([]).tolist() == []


TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_arrow_gives_arrow_with_nulls(kind) -> None:
    """Each layout, sliced anywhere, chunked, and as a dictionary: the same partitions, null for null."""
    keys = KEYS * 5
    whole = pa.array(keys, kind)
    want = expected(keys)
    for lo, hi in [(0, 40), (1, 40), (3, 29), (8, 16), (9, 10), (5, 5)]:
        out = placed(whole[lo : lo + hi - lo])
        assert out.type == pa.int32()
        assert out.to_pylist() == want[lo:hi]
        out.validate(full=True)
    chunked = pa.chunked_array([whole[:7], whole[7:7], whole[7:]])
    assert placed(chunked).to_pylist() == want
    assert placed(pa.chunked_array([], kind)).to_pylist() == []
    if kind != pa.binary_view():
        assert placed(whole.dictionary_encode()[2:]).to_pylist() == want[2:]


def test_arrows_other_layouts() -> None:
    """Text, fixed size, null, dictionaries that hold a null, and extension types."""
    assert placed(pa.array(["foobar", None])).to_pylist() == [6, None]
    assert placed(pa.array(["foobar"], pa.large_string())).to_pylist() == [6]
    assert placed(pa.array(["foobar"], pa.string_view())).to_pylist() == [6]
    fixed = pa.array([b"foobar", None, b"foobaz", b"foobar"], pa.binary(6))
    assert placed(fixed[1:]).to_pylist() == [None, *expected([b"foobaz", b"foobar"])]
    assert placed(pa.nulls(3)).to_pylist() == [None] * 3
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array([b"foobar", None]))
    assert placed(coded).to_pylist() == [6, None, None, 6]
    empty = pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.int8()), pa.array([], pa.binary())
    )
    assert placed(empty).to_pylist() == [None, None]
    ids = pa.array([b"0123456789abcdef"], pa.binary(16))
    assert placed(pa.ExtensionArray.from_storage(pa.uuid(), ids)).to_pylist() == expected(
        [b"0123456789abcdef"]
    )


@pytest.mark.parametrize("form", ["interpreted", "compiled", "by cost"])
@pytest.mark.parametrize(
    "hash_", [MURMUR2, CRC32, FNV1A, JAVA_BYTES, JAVA_STRING], ids=lambda h: h.name
)
@given(keys=st.lists(st.text(max_size=20) | st.text("ab", min_size=60, max_size=90), max_size=40))
def test_every_form_of_a_hash_gives_the_same(form, hash_, keys) -> None:
    """Compiled, through NumPy and one by one: keys of mixed lengths, and all of one length."""
    encoded = [key.encode("utf-8", "replace") for key in keys]
    alike = [key[:9].ljust(9, b"x") for key in encoded if hash_ is not JAVA_STRING or key.isascii()]
    with kernels.force_kernel_form(form):
        for some in (encoded, alike, [key[:8] for key in alike], encoded * 9):
            starts = np.cumsum([0, *map(len, some)])
            data = np.frombuffer(b"".join(some), np.uint8)
            assert hash_all(hash_, data, starts).tolist() == [hash_.hash_key(key) for key in some]


def test_columns_longer_than_a_chunk() -> None:
    """40,000 keys: chunks of one length and of mixed ones, equal to the plain hash."""
    keys = [b"%07d" % i for i in range(20_000)] + [b"%d" % i for i in range(20_000)]
    for name in ("murmur2", "librdkafka", "sarama"):
        assert placed(keys, 2**31 - 1, name).tolist() == expected(keys, 2**31 - 1, name)


@pytest.mark.parametrize("name", partitioners())
def test_every_partitioner_stays_within_the_topic(name) -> None:
    """With a state every record has a partition of the topic; two halves are as good as the whole."""
    one = pg.keys.registry.find_partitioner(name)
    keys = [b"a", None, b"", b"bc", None, None, b"0123456789"] * 12
    for n in (1, 2, 7):
        if one.state_class is None:
            assert set(placed(keys, n, name).tolist()) <= set(range(-1, n))
            continue
        state = start(name, seed=3, available=[n - 1, 0] if n > 1 else None)
        whole, end = pg.partition_for(keys, partitions=n, partitioner=name, state=state, sizes=400)
        assert set(whole.tolist()) <= set(range(n))
        first, middle = pg.partition_for(
            keys[:30], partitions=n, partitioner=name, state=state, sizes=400
        )
        rest, after = pg.partition_for(
            keys[30:], partitions=n, partitioner=name, state=middle, sizes=400
        )
        assert [*first.tolist(), *rest.tolist()] == whole.tolist()
        assert after == end


def test_states_go_on_from_chunk_to_chunk() -> None:
    """A chunked array is one run of records: turns go on, sizes and named partitions too."""
    chunks = pa.chunked_array([pa.nulls(3, pa.binary()), pa.nulls(2, pa.binary())])
    out, state = pg.partition_for(chunks, partitions=4, partitioner="java:2.3", seed=[2])
    assert out.to_pylist() == [2, 3, 0, 1, 2]
    assert state.counter == 7
    out, _ = pg.partition_for(
        chunks,
        partitions=4,
        partitioner="java:roundrobin",
        seed=0,
        explicit=[None, 3, None, 3, None],
    )
    assert out.to_pylist() == [0, 3, 1, 3, 2]


def test_leaders_that_are_missing() -> None:
    """Turns go over partitions with a leader in the metadata's order, over all when none has one."""
    run = {"partitions": 5, "partitioner": "java:2.3"}
    some, _ = pg.partition_for(
        [None] * 4, state=start("java:2.3", counter=0, available=[4, 1]), **run
    )
    none, _ = pg.partition_for([None] * 4, state=start("java:2.3", counter=0, available=[]), **run)
    assert some.tolist() == [4, 1, 4, 1]
    assert none.tolist() == [0, 1, 2, 3]
    with pytest.raises(InvalidConfigError, match="available: must be partitions of 0 to 4, got 5"):
        pg.partition_for([None], state=start("java:2.3", counter=0, available=[5]), **run)
    with pytest.raises(InvalidConfigError, match="No leader for any partition"):
        pg.partition_for(
            [None],
            partitions=5,
            partitioner="scala:0.8.2",
            state=start("scala:0.8.2", available=[]),
        )


def test_scala_draws_anew_after_a_metadata_refresh() -> None:
    """The Scala producer keeps its partition for null keys until its metadata is refreshed."""
    state = start("scala:0.8.2", seed=[1, 2])
    first = pg.partition_for([None] * 3, partitions=3, partitioner="scala:0.8.2", state=state)
    later = forget_partition(first.state)
    second = pg.partition_for([None], partitions=3, partitioner="scala:0.8.2", state=later)
    assert (first.partition.tolist(), second.partition.tolist()) == ([1, 1, 1], [2])


def test_round_robin_skips_every_other_partition_where_each_record_needs_a_batch() -> None:
    """KAFKA-9965: producers 2.4 to 3.9 ask twice; 4.x does not."""
    run = {"partitions": 4, "partitioner": "java:roundrobin", "sizes": 20_000}
    twice, _ = pg.partition_for([None] * 8, state=start("java:roundrobin", asked_again=True), **run)
    once, _ = pg.partition_for([None] * 8, state=start("java:roundrobin"), **run)
    assert set(twice.tolist()) == {1, 3}
    assert once.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_explicit_partitions_are_refused_in_the_clients_words() -> None:
    """0.8.2.2's text, its bracket included; Sarama's hash does not look at them at all."""
    with pytest.raises(InvalidConfigError) as caught:
        pg.partition_for([b"a"], partitions=3, partitioner="java:0.8", explicit=[3])
    assert "Invalid partition given with record: 3 is not in the range [0...3]." in str(
        caught.value
    )
    with pytest.raises(InvalidConfigError, match="non-negative or null"):
        pg.partition_for([b"a"], partitions=3, partitioner="java:builtin", explicit=[-1])
    none = np.array([-1])
    placed_by_key = pg.partition_for([b"a"], partitions=3, partitioner="java:0.8", explicit=none)
    assert placed_by_key.tolist() == placed([b"a"], 3).tolist()
    ignored = pg.partition_for([b"a"], partitions=3, partitioner="sarama", explicit=[2])
    assert ignored.tolist() == placed([b"a"], 3, "sarama").tolist()


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        (0, "at least 1"),
        (-1, "cannot be negative"),
        (2**31, "at most 2147483647"),
        (True, "not a boolean"),
        (1.5, "must be an int"),
        ("12", "must be an int"),
        (None, "must be an int"),
    ],
)
def test_counts_that_no_topic_has(partitions, says) -> None:
    """Each wrong count of partitions has its own words."""
    with pytest.raises(InvalidConfigError, match=says):
        placed([b"a"], partitions)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ([b"a", 7], r"keys\[1\] is no bytes but int: serialise it"),
        ([b"a", [b"b"]], r"keys\[1\] is nested \(list\)"),
        ([{"a": 1}], r"keys\[0\] is nested \(dict\)"),
        (["\ud800"], r"keys\[0\] is no text that UTF-8 has"),
        (np.arange(3), "are numbers"),
        (np.zeros((2, 2), np.int64), "have 2 dimensions"),
        (np.zeros(3, [("a", "i4")]), "are nested"),
        (np.ma.masked_array(np.array([b"a"]), [True]), "masked"),
        (pa.array([1, 2]), "type int64"),
        (pa.array([[b"a"]]), "nested type list"),
        (pa.array([{"a": b"b"}]), "nested type struct"),
        (pa.table({"k": [b"a"]}), "pass one column"),
        (pa.DictionaryArray.from_arrays([0], pa.array([5])), "type int64"),
        (7, "must be bytes, a list"),
        (iter([b"a"]), "must be bytes, a list"),
        (None, "must be bytes, a list"),
    ],
)  # fmt: skip
def test_what_is_no_key(keys, says) -> None:
    """For numbers, nested values, frames and masks, the error names the type and the remedy."""
    with pytest.raises(InvalidKeysError, match=says):
        placed(keys)


@pytest.mark.parametrize("make", [list, pa.array, lambda keys: np.array(keys, object)])
def test_keys_over_a_megabyte(make) -> None:
    """A key longer than a producer sends is refused with its place and length, or allowed by name."""
    keys = [None, b"a", b"x" * 1_048_577]
    with pytest.raises(InvalidKeysError, match=r"keys\[2\] has 1,048,577 bytes.*longest_key="):
        placed(make(keys))
    placed(make([None, b"a", b"x" * 1_048_576]))
    out = pg.partition_for(make(keys), partitions=10, longest_key=2_000_000)
    assert list(out)[1:] is not None
    assert out[2] == expected([keys[2]])[0] or out[2].as_py() == expected([keys[2]])[0]


def test_damaged_offsets_are_no_reading_outside() -> None:
    """Buffers from elsewhere may lie: offsets that fall, or leave the bytes, are an error."""
    data = np.frombuffer(b"abcdef", np.uint8)
    for starts in ([0, 5, 3], [0, 2, 9], [-4, 0, 3], [2**40, 2**40, 2**40]):
        with pytest.raises(InvalidKeysError, match="offsets that do not fit"):
            hash_all(MURMUR2, data, np.array(starts))
    falling = pa.py_buffer(np.array([0, 5, 3], np.int32))
    broken = pa.Array.from_buffers(pa.binary(), 2, [None, falling, pa.py_buffer(b"abcdef")])
    with pytest.raises(InvalidKeysError, match="offsets that do not fit"):
        placed(broken)


def test_states_that_do_not_fit() -> None:
    """A missing, a superfluous, a foreign and an invalid state raise different errors."""
    with pytest.raises(InvalidConfigError, match="pass state= or seed="):
        placed([b"a"], 3, "java:roundrobin")
    with pytest.raises(InvalidConfigError, match="murmur2 has no state"):
        pg.partition_for([b"a"], partitions=3, seed=1)
    with pytest.raises(InvalidConfigError, match="is not one of kafka-python:sticky"):
        pg.partition_for(
            [b"a"],
            partitions=3,
            partitioner="kafka-python:sticky",
            state=start("java:2.3"),
        )
    with pytest.raises(InvalidConfigError, match="no such field"):
        start("java:2.3", batch_size=4)
    with pytest.raises(InvalidConfigError, match="too few random numbers"):
        pg.partition_for([None], partitions=3, partitioner="java:2.3", seed=[])
    with pytest.raises(InvalidKeysError, match="sizes has 2 values for 1 keys"):
        pg.partition_for([None], partitions=3, partitioner="java:builtin", seed=1, sizes=[1, 2])
    with pytest.raises(InvalidConfigError, match="batch_size: must be at least 1"):
        pg.partition_for(
            [None],
            partitions=3,
            partitioner="java:builtin",
            state=start("java:builtin", batch_size=0),
        )


def test_names_that_nobody_has() -> None:
    """An unknown name raises an error with the closest names; Java's class names are names too."""
    with pytest.raises(UnknownPartitionerError, match="did you mean murmur2"):
        placed([b"a"], 3, "mumur2")
    cls = "org.apache.kafka.clients.producer.internals.BuiltInPartitioner"
    assert placed([b"foobar"], 10, cls).tolist() == [6]
    assert set(by_key()) < set(partitioners())


def test_strings_that_no_string_has() -> None:
    """The Scala producer hashed strings: bytes that are not UTF-8 are refused, not guessed."""
    with pytest.raises(InvalidKeysError, match="not UTF-8"):
        placed([b"\xff"], 3, "scala:0.8.2")


def test_runs_of_keys_are_read_like_the_keys() -> None:
    """Arrow's run-end encoded keys, sliced too, go where the same keys go one by one."""
    from pyarrow import compute

    keys = pa.array([b"a", b"a", None, b"", b"bc", b"bc", b"bc"])
    runs = compute.run_end_encode(keys)
    assert pg.partition_for(runs, partitions=7) == pg.partition_for(keys, partitions=7)
    assert pg.partition_for(runs[1:5], partitions=7) == pg.partition_for(keys[1:5], partitions=7)


@pytest.mark.parametrize("longest", ["9", -1, True, None, 1.5])
def test_a_longest_key_that_is_no_number_of_bytes(longest: object) -> None:
    """It is named as the setting that is wrong, and compared with nothing."""
    with pytest.raises(InvalidConfigError, match="longest_key"):
        pg.partition_for([b"a"], partitions=3, longest_key=longest)  # type: ignore[arg-type]
