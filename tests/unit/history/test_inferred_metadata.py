"""A cluster's metadata where nobody recorded it."""

from __future__ import annotations

import json

import pyarrow as pa
from pyarrow import parquet
from tests.support.captured import SAMPLE, clusters

from partage.history.clusters import ClusterHistory
from partage.history.records import GroupRecord, LogPosition
from partage.history.transactions import Transactions
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.inferred_metadata import (
    assigned_counts,
    highest_partitions,
    state_of,
    states_before,
)
from partage.jobs.replay.tally import RecordTally
from partage.wire.consumer_protocol import encode_assignment, encode_subscription
from partage.wire.group_log import decode_record, encode_record


def read(key: bytes, value: bytes | None) -> GroupRecord:
    """A record as the decode job sends it."""
    made = decode_record(key, value)
    return GroupRecord(LogPosition(0, 0), 0, made.type, made.key, made.value)


def tally() -> RecordTally:
    """What the decode job's tally says of the sample, from two halves of it."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    table = table.set_column(0, "partition", table["partition"].cast(pa.int64()))
    whole = RecordTally()
    half = table.num_rows // 2
    for part in (table.slice(0, half), table.slice(half)):
        for batch in decode_table(part, Transactions()):
            for row in batch.to_pylist():
                if row["kind"] == DecodedKind.TALLY:
                    whole.add_tally(RecordTally.of_json(row["text"]))
    return whole


def test_commits_tell_what_topic_ids_are_called() -> None:
    """Every id that commits carry is the metadata's, both lives of a topic included."""
    index = clusters().index
    real = {i: t for i, t in zip(index.ids, index.topics, strict=True) if i}
    found = tally().topic_ids
    assert len(found) >= 20
    assert all(real[i] == name for i, name in found.items())
    assert sum(name == "tmp.doomed" for name in found.values()) == 2


def test_a_state_has_the_ids_that_are_known() -> None:
    """A topic without an id is there all the same."""
    state = state_of({"a": 2, "b": 1}, 5, {"a": "0q9296oPTEeomul5We-plg"})
    history = ClusterHistory([json.loads(json.dumps(state))])
    assert history.index.ids == ("0q9296oPTEeomul5We-plg", None)
    assert len(history.cluster_at(5).partitions_of("a")) == 2


def test_targets_of_every_protocol_tell_counts() -> None:
    """Classic assignments by name, consumer and share targets by id; nothing else does."""
    rows = parquet.read_table(SAMPLE / "consumer_offsets.parquet", columns=["key", "value"])
    highest: dict[str, int] = {}
    for row in rows.to_pylist():
        for topic, number in assigned_counts(read(row["key"], row["value"])):
            highest[topic] = max(highest.get(topic, -1), number)
    assert highest["orders"] == highest["p0H0waZnRN22RdwBhBJt7A"] == 23
    assert highest["1WHwTGS9Tiy0lJHpwq7C4g"] == 11
    commit = encode_record(1, {"group": "g", "topic": "t", "partition": 9})
    assert not list(assigned_counts(read(*commit)))
    target = encode_record(7, {"groupId": "g", "memberId": "m"})
    assert not list(assigned_counts(read(*target)))


def _recorded(ts_ms: int, **partitions: int) -> dict:
    topics = {
        name: {
            "id": f"id-{name}",
            "partitions": [{"p": p, "leader": 1, "replicas": [1]} for p in range(n)],
        }
        for name, n in partitions.items()
    }
    brokers = [{"id": 1, "rack": "a", "host": "h", "port": 1}]
    return {"ts_ms": ts_ms, "cluster_id": "c", "brokers": brokers, "topics": topics}


def _counts(history: ClusterHistory, at_ms: int) -> dict[str, int]:
    cluster = history.cluster_at(at_ms)
    names = {"t", "new", "idle", "gone"}
    return {n: len(cluster.partitions_of(n)) for n in names if cluster.topic(n) >= 0}


def test_before_the_metadata_counts_are_those_of_the_log() -> None:
    """A topic grows when a record shows more of it; one that nobody got was not there."""
    later = _recorded(1_000, t=6, new=2, idle=4)
    seen = [("t", 3, 10), ("new", -1, 10), ("id-t", 5, 500), ("gone", 0, 20), ("t", 2, 600)]
    before = states_before(seen, 9, later, committed={"t": 5}, names={})
    history = ClusterHistory([*before, later])
    assert _counts(history, 10) == {"t": 4, "idle": 4, "gone": 1}
    assert _counts(history, 500) == {"t": 6, "idle": 4, "gone": 1}
    assert _counts(history, 1_000) == {"t": 6, "new": 2, "idle": 4}
    assert [history.assumed_at(t) for t in (10, 500, 999, 1_000)] == [True, True, True, False]
    assert history.cluster_at(10).brokers == history.cluster_at(1_000).brokers
    assert history.cluster_at(10).topic("t") == history.cluster_at(1_000).topic("t")


def test_a_topic_that_grows_all_the_time_has_one_state() -> None:
    """Beyond 256 steps there is one state with the largest counts."""
    seen = [("t", n, n) for n in range(300)]
    (one,) = states_before(seen, -1, _recorded(1_000, t=300), committed={}, names={})
    assert len(one["topics"]["t"]["partitions"]) == 300


def test_records_show_what_was_assigned_claimed_and_left_out() -> None:
    """Claims of members count as well as assignments; a topic without either counts as absent."""
    member = {
        "memberId": "a", "groupInstanceId": None, "clientId": "c", "clientHost": "/h",
        "rebalanceTimeout": 1, "sessionTimeout": 1,
        "subscription": encode_subscription(["t", "new"], owned=[("t", 4)]),
        "assignment": encode_assignment([("t", 1)]),
    }  # fmt: skip
    value = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "a",
             "currentStateTimestamp": 5, "members": [member]}  # fmt: skip
    record = encode_record(2, {"group": "g"}, version=3, value=value)
    assert dict(highest_partitions(read(*record))) == {"t": 4, "new": -1}
    empty = {**value, "members": [{**member, "assignment": b""}]}
    assert dict(
        highest_partitions(read(*encode_record(2, {"group": "g"}, version=3, value=empty)))
    ) == {"t": 4}
    assert not list(highest_partitions(read(record[0], None)))
