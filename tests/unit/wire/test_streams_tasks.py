"""Tasks and offset sums as arrays; store lags and the sums of them; the document's drafts."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from tests.support.streams_made import made_subscription
from tests.support.streams_samples import subscription_of
from tests.support.wire_damage import damaged

from partage.errors import InvalidProblemError, WireFormatError
from partage.legacy.kip441_messages import (
    StoreLags,
    SubscriptionDraft5,
    decode_subscription_draft_5,
    encode_subscription_draft_5,
    task_lags_of_stores,
)
from partage.wire.codec import decode, encode
from partage.wire.errors import EncodingError
from partage.wire.primitives import ByteReader, ByteWriter
from partage.wire.streams.arrays import TaskArrays, TaskValues
from partage.wire.streams.assignment_info import (
    AssignmentInfo,
    decode_assignment_info,
    encode_assignment_info,
)
from partage.wire.streams.subscription_info import (
    SUBSCRIPTION_INFO_DATA,
    SubscriptionInfo,
    decode_subscription_info,
    encode_subscription_info,
)

MANY = 100_000
PROCESS = bytes(range(16))


def _many():
    return {(task // 1000, task % 1000): task * 7 for task in range(MANY)}


def _held(make):
    """What ``make`` gives, the bytes that it keeps, and the most that it took meanwhile."""
    make()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    kept, peak = (one - before for one in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    return made, kept, peak


@pytest.mark.parametrize("version", [7, 11])
def test_a_hundred_thousand_sums_take_less_than_two_megabytes(version):
    """16 bytes a task, read without an object for each; a dict of them takes over ten times that."""
    data = encode_subscription_info(
        SubscriptionInfo.of(process=PROCESS, version=version, offset_sums=_many())
    )
    info, kept, peak = _held(lambda: decode_subscription_info(data))
    assert info.offset_sums.memory_bytes == 16 * MANY
    assert kept < 1.1 * 16 * MANY
    assert peak < 4 * 16 * MANY
    _, as_dict, _ = _held(info.offset_sums.to_dict)
    assert as_dict > 10 * kept
    assert info.offset_sums[99, 999] == (MANY - 1) * 7
    assert info.offset_sums.get((100, 0)) is None
    assert encode_subscription_info(info) == data


def test_a_hundred_thousand_lags_add_up_in_arrays():
    """Store lags of 100,000 tasks with two stores each: 12 bytes a store, 16 a task."""
    rng = random.Random(5)
    pairs = [((f"s{store}", p), rng.randrange(2**31)) for p in range(MANY) for store in (0, 1)]
    lags = StoreLags.from_lags(pairs)
    assert lags.store.nbytes + lags.partition.nbytes + lags.lag.nbytes == 12 * 2 * MANY
    of_store = {"s0": 3, "s1": 3}
    made, kept, peak = _held(lambda: task_lags_of_stores(lags, of_store))
    assert made.memory_bytes == 16 * MANY
    assert kept < 1.1 * 16 * MANY
    assert peak < 20 * 16 * MANY
    for p in (0, 1, MANY - 1):
        assert made[3, p] == pairs[2 * p][1] + pairs[2 * p + 1][1]


def test_assigned_hosts_of_many_partitions_stay_arrays():
    """20,000 active tasks and their partitions by host: 8 bytes a task, 8 a partition."""
    some = MANY // 5
    info = AssignmentInfo.of(
        active=list(_many())[:some],
        hosts={("h", 80): [(f"t{n // 1000}", n % 1000) for n in range(some)]},
    )
    data = encode_assignment_info(info)
    made, kept, _ = _held(lambda: decode_assignment_info(data))
    assert made.active.memory_bytes == 8 * some
    assert made.hosts.partitions.memory_bytes == 8 * some + 8
    assert kept < 1.2 * 16 * some
    assert encode_assignment_info(made) == data


def test_columns_are_read_as_the_engine_reads_the_same_layout():
    """Random and damaged subscriptions: the generic reader of the schema sees the same, or fails too;
    what it sees it writes as the same bytes.
    """
    rng = random.Random(11)
    compared = refused = 0
    while compared < 300:
        try:
            data = encode_subscription_info(subscription_of(made_subscription(rng)))
        except WireFormatError:
            continue
        whole = rng.random() < 0.5
        data = data if whole else damaged(data, rng)
        version = int.from_bytes(data[:4], "big")
        if not 1 <= version <= 11:
            continue
        try:
            info = decode_subscription_info(data)
        except WireFormatError as error:
            refused += not _only_versions(data, version, error)
            continue
        reader = ByteReader(data)
        fields = decode(SUBSCRIPTION_INFO_DATA, reader, version=version)
        assert reader.remaining_bytes == info.trailing
        assert _rows(fields, version) == list(info.offset_sums)
        for name, tasks in (("prevTasks", info.previous), ("standbyTasks", info.standby)):
            wanted = [(one["topicGroupId"], one["partition"], None) for one in fields.get(name, ())]
            assert list(tasks) == wanted
        written = encode(SUBSCRIPTION_INFO_DATA, fields, version=version)
        assert encode_subscription_info(info) == written
        # Kafka writes another null than -1 as -1, and what was no UTF-8 as U+FFFD.
        assert written == data or not whole
        compared += 1
    assert refused > 50


def _only_versions(data, version, error):
    """Whether the layout alone can be read: the check of versions comes on top of it."""
    try:
        decode(SUBSCRIPTION_INFO_DATA, ByteReader(data), version=version)
    except WireFormatError as other:
        return _unlike(other, error)
    assert "version" in str(error)
    return True


def _unlike(one, other):
    assert type(one) is type(other)
    return False


def _rows(fields, version):
    sums = fields.get("taskOffsetSums", ())
    if version >= 10:
        return [
            ((one["topicGroupId"], one["partition"], one["namedTopology"]), one["offsetSum"])
            for one in sums
        ]
    return [
        ((group["topicGroupId"], one["partition"], None), one["offsetSum"])
        for group in sums
        for one in group["partitionToOffsetSum"]
    ]


def test_null_and_empty_names_differ_in_the_bytes_and_not_to_kafka():
    """Version 11: both stay as sent; the leader's map has one task."""
    head = bytes.fromhex("0000000b0000000b") + PROCESS + bytes(4)
    row = "00000001 00000002 0000000000000005"
    sums = bytes.fromhex(f"00000002 {row} ffff {row[:-1]}6 0000")
    data = head + sums + bytes(1 + 4 + 4)
    info = decode_subscription_info(data)
    assert list(info.offset_sums) == [((1, 2, None), 5), ((1, 2, ""), 6)]
    assert info.task_offset_sums.to_dict() == {(1, 2, None): 6}
    assert encode_subscription_info(info) == data


def test_groups_that_kafka_would_not_write_come_out_again():
    """Version 7 with an empty group, and with one sub-topology in two groups."""
    head = bytes.fromhex("000000070000000b") + PROCESS + bytes(4)
    group = "00000001 00000001 00000000 0000000000000005"
    data = head + bytes.fromhex(f"00000003 {group} 00000002 00000000 {group[:18]}{group[18:]}")
    info = decode_subscription_info(data)
    assert list(info.offset_sums) == [((1, 0, None), 5)] * 2
    assert encode_subscription_info(info) == data


def test_tags_that_are_there_twice_are_an_error_when_asked_for():
    """The bytes can be read; a map cannot be made of them."""
    info = SubscriptionInfo(11, 11, client_tags=((b"zone", b"a"), (b"zone", b"b")))
    read = decode_subscription_info(encode_subscription_info(info))
    assert read.client_tags == info.client_tags
    with pytest.raises(WireFormatError, match="twice"):
        _ = read.tags


@pytest.mark.parametrize("text", ["", "a", "\0", "é", "日本", "😀", "\ud83d", "x" * 65_535])
def test_javas_strings_come_back(text):
    """Modified UTF-8, lone surrogates and the longest string included."""
    writer = ByteWriter()
    writer.modified_utf8(text)
    assert ByteReader(bytes(writer.buffer)).modified_utf8() == text


def test_values_that_do_not_fit_are_named():
    """Numbers beyond their width, things that are no tasks, strings that are too long."""
    with pytest.raises(EncodingError, match=r"tasks\[1\]"):
        TaskArrays.from_tasks([(0, 1), (0, 2**31)])
    with pytest.raises(EncodingError, match="int64"):
        TaskValues.from_mapping({(0, 1): 2**63})
    with pytest.raises(EncodingError, match=r"partitionsByHost"):
        encode_assignment_info(AssignmentInfo.of(hosts={("h" * 65_536, 1): []}))
    with pytest.raises(EncodingError, match="processId"):
        encode_subscription_info(SubscriptionInfo(1, process=b"x"))


def test_version_4_is_as_kip_441_prints_it():
    """Kafka 2.1 to 2.3 sent version 4 with the fields of the KIP's document in their order."""
    said = SubscriptionInfo.of(
        process=PROCESS, version=4, endpoint="h:80", offset_sums={(0, 2): -2, (1, 0): 5}
    )
    data = encode_subscription_info(said)
    printed = (
        "00000004 0000000b 000102030405060708090a0b0c0d0e0f "  # VersionId, Latest, ClientUUID
        "00000001 00000000 00000002 00000001 00000001 00000000 "  # PrevTasks, StandbyTasks
        "00000004 683a3830"  # EndPoint
    )
    assert data == bytes.fromhex(printed)
    assert decode_subscription_info(data) == said
    info = AssignmentInfo.of(
        version=4,
        active=[(0, 2)],
        standby={(1, 0): [("t1", 0)]},
        hosts={("h", 80): [("t0", 2)]},
        error_code=3,
    )
    data = encode_assignment_info(info)
    printed = (
        "00000004 0000000b 00000001 00000000 00000002 "  # VersionId, Latest, ActiveTasks
        "00000001 00000001 00000000 00000001 0002 7431 00000000 "  # StandbyTasks
        "00000001 0001 68 00000050 00000001 0002 7430 00000002 "  # PartitionsByHost
        "00000003"  # ErrorCode
    )
    assert data == bytes.fromhex(printed)
    assert decode_assignment_info(data) == info


def test_the_draft_of_version_5_is_none_of_kafkas():
    """It comes back; the shipped version 5 under the same number is another message."""
    draft = SubscriptionDraft5.from_values(
        process=PROCESS, store_lags={("counts", 0): 7, ("é", 3): 0}, endpoint="h:80"
    )
    data = encode_subscription_draft_5(draft)
    assert decode_subscription_draft_5(data) == draft
    assert decode_subscription_draft_5(data).endpoint == "h:80"
    with pytest.raises(WireFormatError):
        decode_subscription_info(data)
    for end in range(len(data)):
        with pytest.raises(WireFormatError, match="draft 5"):
            decode_subscription_draft_5(data[:end])


def test_lags_that_cannot_be_added_up_are_named():
    """Negative ones, and stores that the topology does not have; a store twice counts once."""
    of_store = {"counts": 0}
    with pytest.raises(InvalidProblemError, match=r"store lags\.counts\[3\].*-1"):
        task_lags_of_stores(StoreLags.from_lags({("counts", 3): -1}), of_store)
    with pytest.raises(InvalidProblemError, match="'sums'"):
        task_lags_of_stores(StoreLags.from_lags({("sums", 3): 1}), of_store)
    twice = StoreLags.from_lags([(("counts", 3), 5), (("counts", 3), 6)])
    assert task_lags_of_stores(twice, of_store).to_dict() == {(0, 3, None): 6}
    assert len(task_lags_of_stores(StoreLags.from_lags({}), of_store)) == 0


def test_task_sums_go_to_the_leader_as_they_are():
    """The streams room takes the names: its TaskId is such a tuple."""
    from partage.streams.task_ids import TaskId

    sums = TaskValues.from_mapping({TaskId(0, 1): 5, TaskId(2, 3, "ab"): -2})
    assert sums[TaskId(2, 3, "ab")] == -2
    assert {TaskId(*task): value for task, value in sums} == sums.to_dict()
