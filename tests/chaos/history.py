"""What was recorded of all that, beside what the members themselves said."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.clients.records import generation_of
from tests.support.processes import Closes

from partage.errors import PartageError
from partage.history.agreement import check_agreement
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.records import LogPosition, assigned_partitions, parse_classic_state
from partage.jobs.replay.capture import files_of
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.records import Written

    from chaos.party import Party

_OF_A_GROUP = b"\x00\x02"  # version of the key, which says what the record is about
PARTAGE = [sys.executable, "-m", "partage"]


class Recorder(Closes):
    """``partage capture --follow`` beside the soak: killed with SIGKILL, started again, stopped."""

    def __init__(self, bootstrap: str, out: Path) -> None:
        self.out = out
        self.killed = 0
        self._command = [*PARTAGE, "capture", "-b", bootstrap, "-o", str(out), "--follow",
                         "--roll-every", "5"]  # fmt: skip
        self._log = out.with_suffix(".log")
        self._log.touch()
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """As a machine that loses power; then again from where it was."""
        if self._process.poll() is not None:
            pytest.fail(f"capture --follow ended: {self._log.read_text()[-1000:]}", pytrace=False)
        self._process.kill()
        self._process.wait()
        self.killed += 1
        self._start()

    def close(self) -> None:
        """It dies, if nobody has stopped it."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> str:
        """In good order; answers what is wrong with how it ended."""
        end = time.monotonic() + 60
        while self._log.read_text().count("following") <= self.killed and time.monotonic() < end:
            time.sleep(0.1)  # it has just been started, and cannot listen yet
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return (
            ""
            if code == 0
            else f"capture --follow ended with {code}: {self._log.read_text()[-500:]}"
        )


def captured(bootstrap: str, out: Path) -> Path:
    """One capture to the log's end, in this process."""
    from partage.capture.connection import ClusterConnection
    from partage.capture.live import LiveCapture
    from partage.capture.writing import CaptureWriter

    with ClusterConnection(bootstrap, {}) as connection, CaptureWriter(out) as writer:
        LiveCapture(connection, writer).run_capture(follow=False)
    return out


def rows(capture: Path) -> list[tuple[int, int, bytes, bytes | None]]:
    """Records of a capture in log order: partition, offset, key, value."""
    names = ("partition", "offset", "key", "value")
    table = pq.read_table(files_of(capture / "consumer_offsets.parquet"), columns=list(names))
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def generations(capture: Path, group: str) -> list[Written]:
    """A group's generations that have assignments; several records of one are one, the last."""
    found: dict[int, Written] = {}
    for _, _, key, value in rows(capture):
        one = generation_of(key, value, group) if key[:2] == _OF_A_GROUP else None
        if one is not None:
            found[one.generation] = one
    return [found[n] for n in sorted(found)]


def write_down(parties: list[Party], to: Path) -> None:
    """Write all events of the members to ``to``, except what they read: for the search of a cause."""
    with to.open("w") as file:
        for event in sorted(
            ({"group": p.group, **e} for p in parties for m in p.all for e in m.events
             if e["event"] != "read"), key=lambda e: e["at"],
        ):  # fmt: skip
            file.write(json.dumps(event) + "\n")


def assigned_otherwise(party: Party, log: list[Written]) -> list[str]:
    """Where the log and the members' own words differ, or the log gives a partition twice."""
    wrong = []
    by_generation = {one.generation: one for one in log}
    for one in log:
        counted = Counter(p for had in one.owners().values() for p in had)
        if twice := sorted(p for p, n in counted.items() if n > 1):
            wrong.append(f"{party.group} generation {one.generation} gives {twice} twice")
    for (generation, member), owns in party.reports().items():
        one = by_generation.get(generation)
        if one is None or member not in one.assignments:
            wrong.append(f"{party.group} generation {generation}: {member} is not in the log")
        elif set(one.assignments[member].partitions) != owns:
            said = f"{sorted(owns)}, the log {sorted(one.assignments[member].partitions)}"
            wrong.append(f"{party.group} generation {generation}: {member} says {said}")
    return wrong


def decided_otherwise(party: Party, log: list[Written], first: int) -> list[str]:
    """Generations that the strategy, asked again, plans otherwise, whatever part of a topic that
    grew from ``first`` partitions the leader had seen.
    """
    return [
        f"{party.group} generation {one.generation} ({one.protocol}) is planned otherwise"
        for one in log
        if any(one.owners().values())
        and not any(_decides(one, {party.topic: n}) for n in range(party.partitions, first - 1, -1))
    ]


def _decides(one: Written, topics: dict[str, int]) -> bool:
    try:
        return one.owners() == one.decided(topics)
    except PartageError:
        return False  # with fewer partitions than its members have, a strategy may refuse


def judged_otherwise(party: Party, capture: Path, log: list[Written], first: int) -> list[str]:
    """The same by the history that `partage replay` makes of the capture, here without Spark: the
    members' own words, and each plan asked for again.
    """
    states = (capture / "cluster.jsonl").read_text().splitlines()
    clusters = ClusterHistory([json.loads(line) for line in states])
    group, found = ClassicGroup(), []
    for partition, offset, key, value in rows(capture):
        if (
            key[:2] != _OF_A_GROUP
            or (said := decode_record(key, value)).key["group"] != party.group
        ):
            continue
        state = None if not said.value else parse_classic_state(said.value)
        found += group.process_record(ClassicRecord(LogPosition(partition, offset), 0, state))
    found = [one for one in (*found, *group.finish_generations()) if isinstance(one, Generation)]
    had = {
        (one.generation_number, m.id): set(assigned_partitions(m))
        for one in found
        for m in one.last.members
    }
    wrong = [
        f"{party.group} generation {key[0]}: {key[1]} says {sorted(owns)}, history {had.get(key)}"
        for key, owns in party.reports().items() if had.get(key) != owns
    ]  # fmt: skip
    judged = [(one, check_agreement(one, clusters)) for one in found if one.first.members]
    unsure = {one.generation_number for one, verdict in judged if not verdict.agrees}
    return wrong + decided_otherwise(party, [one for one in log if one.generation in unsure], first)


def replayed(capture: Path, out: Path) -> Path:
    """``partage replay``; the folder of its tables."""
    done = subprocess.run(
        [*PARTAGE, "replay", str(capture), "--out", str(out), "--quiet", "--no-report",
         "--policy", "eager/range"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / "tables"


def replayed_otherwise(party: Party, tables: Path, log: list[Written], first: int) -> list[str]:
    """Where the run's tables differ from the members' own words, or a plan is unexplained.

    While the capture was killed nobody looked at the metadata: a number of partitions that the
    leader saw then may be in no state. It is tried here.
    """
    only = [("group", "=", party.group)]
    had: dict[tuple[int, str], set[tuple[str, int]]] = defaultdict(set)
    for row in pq.read_table(tables / "members", filters=only).to_pylist():
        had[row["generation"], row["member"]] |= {
            (one["topic"], p) for one in row["assignment"] or () for p in one["partitions"]
        }
    wrong = [
        f"{party.group} generation {key[0]}: {key[1]} says {sorted(owns)}, replay {sorted(had[key])}"
        for key, owns in party.reports().items() if had[key] != owns
    ]  # fmt: skip
    unexplained = {
        row["generation"]
        for row in pq.read_table(tables / "rebalances", filters=only).to_pylist()
        if row["agrees"] is False and row["disagreement"] == "unexplained"
    }
    return wrong + decided_otherwise(
        party, [one for one in log if one.generation in unexplained], first
    )
