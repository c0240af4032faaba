"""A cluster's metadata where nobody recorded it."""

from __future__ import annotations

import json

import pyarrow as pa
from pyarrow import parquet

from captured import SAMPLE, clusters
from partage.history.clusters import ClusterHistory
from partage.history.transactions import Transactions
from partage.pipeline.decode import Kind, decoded
from partage.pipeline.inferred import assigned_counts, state_of
from partage.pipeline.tally import Tally


def told() -> Tally:
    """What the decode job's tally says of the sample, from two halves of it."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    table = table.set_column(0, "partition", table["partition"].cast(pa.int64()))
    whole = Tally()
    half = table.num_rows // 2
    for part in (table.slice(0, half), table.slice(half)):
        for batch in decoded(part, Transactions()):
            for row in batch.to_pylist():
                if row["kind"] == Kind.TALLY:
                    whole.add(Tally.of_json(row["text"]))
    return whole


def test_commits_tell_what_topic_ids_are_called() -> None:
    """Every id that commits carry is the metadata's, both lives of a topic included."""
    index = clusters().index
    real = {i: t for i, t in zip(index.ids, index.topics, strict=True) if i}
    found = told().topic_ids
    assert len(found) >= 20
    assert all(real[i] == name for i, name in found.items())
    assert sum(name == "tmp.doomed" for name in found.values()) == 2


def test_a_state_has_the_ids_that_are_known() -> None:
    """A topic without an id is there all the same."""
    state = state_of({"a": 2, "b": 1}, 5, {"a": "0q9296oPTEeomul5We-plg"})
    history = ClusterHistory([json.loads(json.dumps(state))])
    assert history.index.ids == ("0q9296oPTEeomul5We-plg", None)
    assert len(history.at(5).partitions_of("a")) == 2


def test_targets_of_every_protocol_tell_counts() -> None:
    """Classic assignments by name, consumer and share targets by id; nothing else does."""
    rows = parquet.read_table(SAMPLE / "consumer_offsets.parquet", columns=["key", "value"])
    highest: dict[str, int] = {}
    for row in rows.to_pylist():
        for topic, number in assigned_counts(row["key"], row["value"]):
            highest[topic] = max(highest.get(topic, -1), number)
    assert highest["orders"] == highest["p0H0waZnRN22RdwBhBJt7A"] == 23
    assert highest["1WHwTGS9Tiy0lJHpwq7C4g"] == 11
    assert list(assigned_counts(None, b"")) == list(assigned_counts(b"\0\1", b"x")) == []
    assert not list(assigned_counts(b"\0\7", b"damaged"))
