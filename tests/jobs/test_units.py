"""Work is cut so that no group holds the job, and histories of any size are made."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.support.published import replayed
from tests.support.simulated_histories import history, member, topics

from partage.jobs.replay import output
from partage.jobs.replay.output import TableWriters
from partage.jobs.replay.replay import replay
from partage.jobs.replay.simulations import pack_tasks, work_units
from partage.jobs.replay.spill_files import SpilledChunk, SpilledHistory, SpillWriter
from partage.runs.published_run import read_table
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.metrics import SimulatedRebalance
from partage.simulation.recorded_rebalances import recorded_rebalances
from partage.testing.histories import Size, write_capture

POLICIES = 11


def kept(name: str, rebalances: int) -> SpilledHistory:
    sizes = [64] * (rebalances // 64) + ([rebalances % 64] if rebalances % 64 else [])
    chunks = (SpilledChunk("", 0, 0, n) for n in sizes)
    return SpilledHistory(name, SpilledChunk("", 0, 0, 0), tuple(chunks))


def test_a_huge_group_is_no_task_of_its_own() -> None:
    """One group with half of all rebalances: its largest unit is a life, and tasks end together."""
    groups = [kept("huge", 20_000), *(kept(f"g{i}", 200) for i in range(100))]
    work = work_units(groups, policies=POLICIES, cores=8)
    mine = [one for one in work if one.history.group == "huge"]
    assert sorted(c for one in mine for c in one.chunks) == list(range(len(groups[0].chunks)))
    assert sorted(p for one in mine for p in one.policies) == list(range(POLICIES))
    assert max(one.cost for one in mine) <= 20_000
    tasks = pack_tasks(work, tasks=64)
    cost = [sum(one.cost for one in task) for task in tasks]
    assert max(cost) < 1.5 * sum(cost) / len(cost)


def test_few_large_rebalances_are_cut_like_many_small_ones() -> None:
    """Bytes count as well: 40 rebalances of a giant group are cut by policies and by chunk."""
    chunks = tuple(SpilledChunk("", 0, 1_200_000, 4) for _ in range(10))
    giant = SpilledHistory("giant", SpilledChunk("", 0, 0, 0), chunks)
    work = work_units([giant, kept("small", 200)], policies=POLICIES, cores=2)
    mine = [one for one in work if one.history == giant]
    assert [len(one.policies) for one in mine if one.policies] == [2, 2, 2, 2, 2, 1]
    assert len([one for one in mine if one.chunks]) == 10
    assert len([one for one in work if one.history != giant]) == 1


def test_a_spilled_chunk_is_limited_by_members_and_partitions(tmp_path: Path) -> None:
    """Ordinary rebalances share a chunk; large ones fill it one by one."""
    clusters = topics(t=20_000)
    chunks = {}
    with closing(SpillWriter(str(tmp_path), "run", "0")) as writer:
        for name, partitions in (("small", 10), ("large", 20_000)):
            generations = history(
                *((1_000 * i, [member("a", range(partitions))]) for i in range(1, 6))
            )
            for rebalance in recorded_rebalances(generations, clusters):
                writer.write_rebalance((rebalance, {}))
            found = writer.finish_group(name, CommitStatistics(), None)
            chunks[name] = [chunk.rebalances for chunk in found.chunks]
            assert found.byte_count == sum(chunk.length for chunk in found.chunks) > 0
            assert len(list(found.rebalance_rows())) == 5
    assert chunks == {"small": [5], "large": [2, 2, 1]}


def test_rows_with_long_plans_are_written_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer of a table is limited by the text of plans, not only by rows."""
    monkeypatch.setattr(output, "_BUFFER_TEXT", 100)
    names = ("p", "s", "eager", "cumulative")
    row = SimulatedRebalance(0, 1, *names, 1_000, "done", plan="x" * 60)
    with closing(TableWriters(str(tmp_path), "run", "0")) as writers:
        for _ in range(5):
            writers.write_row("replays", {"group": "g", **row.to_row()})
        (file,) = writers.close_with_receipts()
    found = pyarrow.parquet.ParquetFile(tmp_path / file.path)
    assert [found.metadata.row_group(i).num_rows for i in range(3)] == [2, 2, 1]


def test_rows_may_have_their_columns_in_any_order(tmp_path) -> None:
    """A row's values get to their columns by name, whatever the order; a missing one is null."""
    first = replayed("a", 1, "range", detail="x")
    second = dict(reversed(replayed("b", 2, "range", detail="y").items()))
    short = {name: value for name, value in second.items() if name != "detail"}
    for number, given in enumerate(([first, second], [first, short])):
        with closing(TableWriters(str(tmp_path), "run", str(number))) as writers:
            for row in given:
                writers.write_row("replays", row)
            (receipt,) = writers.close_with_receipts()
        table = pyarrow.parquet.read_table(tmp_path / receipt.path)
        assert table["group"].to_pylist() == [row.get("group") for row in given]
        assert table["detail"].to_pylist() == [row.get("detail") for row in given]


def test_every_rebalance_is_simulated_once() -> None:
    """Each chunk of each group, and each policy of each, is in exactly one unit."""
    groups = [kept("a", 1), kept("b", 64), kept("c", 1_000), kept("d", 129)]
    work = [
        one for task in pack_tasks(work_units(groups, policies=3, cores=2), tasks=5) for one in task
    ]
    for group in groups:
        mine = [one for one in work if one.history == group]
        chunks = Counter(c for one in mine for c in one.chunks)
        assert chunks == Counter(range(len(group.chunks)))
        assert Counter(p for one in mine for p in one.policies) == Counter(range(3))


def test_a_history_is_the_same_every_time(tmp_path: Path) -> None:
    """Seeded: the same arguments give the same bytes, another seed gives other ones."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_capture(Size(3_000, groups=3), tmp_path / name, seed=seed)
    first, again, other = (
        [p.read_bytes() for p in sorted((tmp_path / n).rglob("*.*")) if p.is_file()] for n in "abc"
    )
    assert first == again != other


def test_a_synthetic_history_is_understood(tmp_path: Path) -> None:
    """Half of the rebalances in one group: all agree with range, and all are simulated both ways."""
    count = write_capture(Size(12_000, groups=5, huge=True), tmp_path / "c", seed=3)
    policies = ["eager/range", "consumer/uniform+static"]
    found = replay(tmp_path / "c", tmp_path / "out", engine="local", policies=policies)
    assert found["accounting"]["records"] == count == found["accounting"]["decoded"]
    rebalances = found["coverage"]["rebalances"]
    assert found["groups"][0]["rebalances"] > 0.4 * rebalances
    agreed = found["agreement"]["by_strategy"]["range"]
    assert agreed["counted"] == agreed["agreed"] > 50
    rows = read_table(tmp_path / "out", "replays").select(["policy", "reading", "step"])
    seen = Counter((r["policy"], r["reading"]) for r in rows.to_pylist() if r["step"] == 0)
    assert set(seen.values()) == {rebalances}
    assert len(seen) == 1 + 2 * len(policies)


def test_the_summary_escapes_characters_that_a_terminal_obeys(tmp_path: Path) -> None:
    """Names of groups and topics may be anything; the values stay the same."""
    value = {"group": "a\u202e\x9b2J"}
    output._write_atomically(tmp_path / "summary.json", value)
    text = (tmp_path / "summary.json").read_text("utf-8")
    assert not {"\u202e", "\x9b"} & set(text)
    assert json.loads(text) == value
