"""Migrate a live cluster's groups by the steps that `partage migrate` prints, and go back.

    python -m tests.chaos.migrating OUT --seed 1

Each group first lives through restarts under its present settings. A capture of that is replayed,
and `partage.migrate` plans the migration: to the consumer protocol (KIP-848) or to cooperative
rebalances. The script carries out the planned steps one by one; a step that it does not know is an
error. Then the same restarts follow under the new settings, and at last the steps back.

``outcomes.json`` has a row for each group: what was forecast, what happened, and violations. OUT
also has the files of a recording, and both runs (``before`` and ``after``).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.record import (
    Plan,
    RecordedGroup,
    RecordedMember,
    Recording,
    client_options,
    record,
)
from tests.support.unread_truth import unread_intervals

import partage as pg
from partage.capture.connection import ClusterConnection
from partage.capture.groups import LiveGroup, live_groups
from partage.capture.security import ClientProperties, connection_settings
from partage.forecasts.migration import BLOCKED, DONE, Migration

_MEMBERS, _ROUNDS, _AT_ONCE = 3, 2, 4
#: Seconds without a process, between two restarts, until a group has to be stable, for one start.
_GAP_S, _BETWEEN_S, _SETTLE_S, _START_S = 1.5, 6.0, 60.0, 60.0


class Case(NamedTuple):
    """One group, the protocol that it migrates to, and the client libraries of its members."""

    plan: Plan
    protocol: str
    langs: tuple[str, ...]


def _case(protocol: str, name: str, lang: str, topics: str, **more: Any) -> Case:
    return Case(Plan(name, (lang,), tuple(topics.split()), **more), protocol, (lang,) * _MEMBERS)


_STICKY = ("cooperative-sticky",)
CASES = (
    _case("consumer", "billing", "java", "orders payments", session=8_000),
    _case("consumer", "sessions", "java", "clicks growing", strategy=_STICKY),
    _case("consumer", "warehouse", "java", "stock", static=True),
    _case("consumer", "search", "confluent", "clicks mail", strategy=_STICKY),
    _case("consumer", "alerts", "kafka-python", "alerts payments"),
    _case("cooperative", "ledger", "java", "payments stock"),
    _case("cooperative", "exports", "kafka-python", "clicks"),
    _case("cooperative", "index", "confluent", "orders"),
)


@dataclass
class Outcome:
    """What `partage migrate` forecast for a group, and what happened.

    Attributes:
        group, libraries, protocol: the group, its client libraries, the protocol of the target.
        before, after, back: kind and strategy of the running group at first, after the migration,
            and after the steps back.
        status, changes, checks: status and titles of findings before the migration.
        status_after: status that `partage migrate` reports after it.
        steps: the planned steps, each with what was seen.
        forecast: simulated policy, rebalances, and gain in partition-seconds.
        rebalances, unread: true values before and after, over the same restarts.
        tried: claims that were tried by themselves, with what was seen.
        violations: partitions with two readers, offsets that went back, failed steps.
    """

    group: str
    libraries: str
    protocol: str
    before: str = ""
    after: str = ""
    back: str = ""
    status: str = ""
    status_after: str = ""
    changes: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    forecast: dict[str, Any] = field(default_factory=dict)
    rebalances: list[int] = field(default_factory=list)
    unread: list[float] = field(default_factory=list)
    tried: list[tuple[str, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Migrations(Recording):
    """Groups that migrate and go back; `outcomes` has a row for each.

    Attributes:
        folder: folder of captures and runs.
        outcomes: dict from group to its outcome.
        names: names of the groups; empty for all.
    """

    own_share = 0.0
    folder: Path
    names: tuple[str, ...] = ()

    def run(self) -> None:
        """Restart, migrate, restart again, and go back; at most four groups at a time."""
        cases = [one for one in CASES if not self.names or one.plan.name in self.names]
        self.groups = [RecordedGroup(case.plan) for case in cases]
        self.outcomes = {
            case.plan.name: Outcome(
                case.plan.name, "/".join(sorted(set(case.langs))), case.protocol
            )
            for case in cases
        }
        self._committed: dict[str, dict[tuple[str, int], int]] = {}
        self._started_ms: dict[str, int] = {}
        self.note("churn_begin")
        self._batches(partial(self._restarts, "before"))
        run = self._replayed("before")
        self.planned = {
            case.plan.name: pg.migrate(run, case.plan.name, protocol=case.protocol)[0]
            for case in cases
        }
        self._batches(self._migrate)
        self._batches(partial(self._restarts, "after"))
        self._record_again(run)
        self._batches(self._go_back)
        if not self.names:
            self._try_claims()
        self.note("churn_end")
        self._count()

    def _batches(self, do: Callable[[RecordedGroup], None]) -> None:
        for first in range(0, len(self.groups), _AT_ONCE):
            self.for_each(self.groups[first : first + _AT_ONCE], do)

    # --- restarts ------------------------------------------------------------------------------

    def _restarts(self, phase: str, group: RecordedGroup) -> None:
        """Start all members of a group anew and restart each of them twice, between two events."""
        name = group.plan.name
        case = next(one for one in CASES if one.plan.name == name)
        if phase == "after" and self.planned[name].status == BLOCKED:
            return
        for member in list(group.members):
            self._stop(group, member)
        time.sleep(group.plan.session / 1_000 if group.plan.static else 1.0)
        self.note(f"{phase}_begin", group=name)
        langs = group.plan.langs
        for lang in case.langs:
            group.plan = replace(group.plan, langs=(lang,))
            self.add(group)
            self.await_start(group.members[-1].id, _START_S)
            time.sleep(_BETWEEN_S / 2)
        group.plan = replace(group.plan, langs=langs)
        for _ in range(_ROUNDS * _MEMBERS):
            self._replace(group)
            time.sleep(_BETWEEN_S)
        self.note(f"{phase}_end", group=name)
        self._look(group, phase)

    def _stop(self, group: RecordedGroup, member: RecordedMember) -> None:
        group.remove(member)
        self.note("leave", group=group.plan.name, id=member.id, form="proc")
        self._close(member)
        self._await(lambda: member.id in self._closed, f"{member.id} to close")

    def _replace(self, group: RecordedGroup) -> None:
        """Stop the oldest member, and start it again under the group's present settings."""
        member = group.members[0]
        self.note("bounce", group=group.plan.name, id=member.id, form="proc", hard=False,
                  gap=_GAP_S, instance=member.instance)  # fmt: skip
        group.members.remove(member)
        self._close(member)
        self._await(lambda: member.id in self._closed, f"{member.id} to close")
        time.sleep(_GAP_S)
        self.add(group, member)
        self.await_start(group.members[-1].id, _START_S)

    def _await(self, done: Callable[[], bool], what: str) -> bool:
        until = time.monotonic() + _SETTLE_S
        while time.monotonic() < until:
            if done():
                return True
            time.sleep(0.1)
        self.note("timeout", waited_for=what)
        return False

    # --- the running group ----------------------------------------------------------------------

    def _look(self, group: RecordedGroup, phase: str = "", kind: str = "") -> str:
        """Wait until the group is stable, check it, and return its kind and strategy."""
        plan, outcome = group.plan, self.outcomes[group.plan.name]
        expected = sorted((t, p) for t in plan.topics for p in range(self._partitions[t]))
        found: list[LiveGroup] = []

        def is_stable() -> bool:
            with ClusterConnection(
                self.cluster.bootstrap, connection_settings(ClientProperties({}))
            ) as c:
                found[:] = live_groups(c, [plan.name])[0]
            return bool(found) and (
                sorted(p for m in found[0].members for p in m.owned) == expected
                and len(found[0].members) == len(group.members)
                and kind in ("", found[0].type)
            )

        if not self._await(is_stable, f"{plan.name} to be stable {kind}"):
            seen = found[0] if found else None
            text = f"{phase or 'step'}: expected {kind or 'a stable group'}, found {_shown(seen)}"
            outcome.violations.append(text)
            return text
        self._compare_offsets(outcome, found[0].committed)
        shown = _shown(found[0])
        if phase:
            setattr(outcome, phase, shown)
        return f"{shown}, {len(found[0].members)} members, each partition has one owner"

    def _compare_offsets(self, outcome: Outcome, now: Mapping[tuple[str, int], int]) -> None:
        known = self._committed.setdefault(outcome.group, {})
        behind = {place: at for place, at in now.items() if at < known.get(place, 0)}
        if behind or known.keys() - now.keys():
            outcome.violations.append(f"offsets went back: {behind or 'removed'}")
        known |= now

    # --- the steps ------------------------------------------------------------------------------

    def _migrate(self, group: RecordedGroup) -> None:
        outcome, planned = self.outcomes[group.plan.name], self.planned[group.plan.name]
        _fill(outcome, planned)
        self.note("migrate_begin", group=group.plan.name)
        for step in planned.steps:
            outcome.steps.append((step, self._do(group, step)))
        self.note("migrate_end", group=group.plan.name)

    def _go_back(self, group: RecordedGroup) -> None:
        outcome, planned = self.outcomes[group.plan.name], self.planned[group.plan.name]
        self.note("back_begin", group=group.plan.name)
        for step in planned.back:
            outcome.steps.append((f"back: {step}", self._do(group, step)))
        self.note("back_end", group=group.plan.name)
        if planned.back:
            self._look(group, "back")

    def _do(self, group: RecordedGroup, step: str) -> str:
        """Carry out one step of a plan, and return what was seen."""
        for pattern, method in _STEPS:
            if (found := re.match(pattern, step)) is not None:
                return str(method(self, group, *found.groups()))
        self.outcomes[group.plan.name].violations.append(f"unknown step: {step}")
        return "unknown step"

    def _check_brokers(self, group: RecordedGroup) -> str:
        bootstrap = ("--bootstrap-server", self.cluster.bootstrap)
        features = self.cluster.run_tool(
            "org.apache.kafka.tools.FeatureCommand", *bootstrap, "describe"
        ).stdout
        level = re.search(r"Feature: group\.version.*FinalizedVersionLevel: (\d+)", features)
        configs = self.cluster.run_tool(
            "kafka.admin.ConfigCommand", *bootstrap, "--describe", "--all", "--entity-type",
            "brokers", "--entity-name", "1",
        ).stdout  # fmt: skip
        policy = re.search(r"group\.consumer\.migration\.policy=(\w+)", configs)
        seen = (level and level[1], policy and policy[1].lower())
        if not level or int(level[1]) < 1 or seen[1] != "bidirectional":
            self.outcomes[group.plan.name].violations.append(f"brokers: {seen}")
        return f"group.version {seen[0]}, migration policy {seen[1]}"

    def _nothing(self, group: RecordedGroup) -> str:
        return f"{group.plan.name}: the clients are recent"

    def _set_session(self, group: RecordedGroup) -> str:
        """Set the group's session timeout on the brokers to what its members sent."""
        value = f"consumer.session.timeout.ms={group.plan.session}"
        done = self.cluster.run_tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", self.cluster.bootstrap, "--alter",
            "--entity-type", "groups", "--entity-name", group.plan.name, "--add-config", value,
        )  # fmt: skip
        if done.returncode:
            self.outcomes[group.plan.name].violations.append(done.stderr[-300:])
        return value

    def _first_member(self, group: RecordedGroup, assignor: str) -> str:
        group.plan = replace(group.plan, protocol="consumer", strategy=(assignor,))
        self._replace(group)
        return self._look(group, kind="consumer")

    def _check_mixed(self, group: RecordedGroup) -> str:
        return self._look(group, kind="consumer")

    def _other_members(self, group: RecordedGroup) -> str:
        for _ in range(len(group.members) - 1):
            self._replace(group)
            self._look(group, kind="consumer")
        return self._look(group, kind="consumer")

    def _after_restarts(self, group: RecordedGroup) -> str:
        return f"{group.plan.name}: done after the restarts"

    def _restart_all(self, group: RecordedGroup, setting: str) -> str:
        group.plan = replace(group.plan, protocol="classic", strategy=strategies_of(setting))
        for _ in range(len(group.members)):
            self._replace(group)
            self._look(group)
        return self._look(group)

    def _check_classic(self, group: RecordedGroup) -> str:
        return self._look(group, kind="classic")

    def _stop_all(self, group: RecordedGroup) -> str:
        for member in list(group.members):
            self._stop(group, member)
        return "stopped"

    def _restart_classic(self, group: RecordedGroup, session: str | None, setting: str) -> str:
        if session is not None and int(session) != group.plan.session:
            self.outcomes[group.plan.name].violations.append(f"former session timeout: {session}")
        return self._restart_all(group, setting)

    def _start_all(self, group: RecordedGroup, setting: str) -> str:
        group.plan = replace(group.plan, strategy=strategies_of(setting))
        for _ in range(_MEMBERS):
            self.add(group)
            self.await_start(group.members[-1].id, _START_S)
        return self._look(group)

    def _start_consumers(self, group: RecordedGroup, assignor: str) -> str:
        group.plan = replace(group.plan, protocol="consumer")
        self._start_all(group, f"={assignor}")
        return self._look(group, kind="consumer")

    def _stop_and_start(self, group: RecordedGroup, setting: str) -> str:
        self._stop_all(group)
        return self._start_all(group, setting)

    # --- captures and counts --------------------------------------------------------------------

    def _replayed(self, name: str, since: int | None = None) -> pg.Run:
        capture = self.folder / f"capture-{name}"
        pg.capture_cluster(capture, self.cluster.bootstrap)
        return pg.replay(capture, engine="local", out=self.folder / name, since=since)

    def _record_again(self, before: pg.Run) -> None:
        since = min(one["ts_ms"] for one in self.events if one["what"] == "after_begin")
        run = self._replayed("after", since)
        compared = pg.diff(before, run)
        for name, outcome in self.outcomes.items():
            if self.planned[name].status == BLOCKED:
                continue
            outcome.status_after = pg.migrate(run, name, protocol=outcome.protocol)[0].status
            if outcome.status_after != DONE:
                outcome.violations.append(f"after the migration it is {outcome.status_after}")
            if name not in {one.name for one in compared.groups}:
                outcome.violations.append("partage diff does not compare it")

    def _count(self) -> None:
        """Count rebalances and sum up the unread time before and after, by the restarts' events."""
        intervals = unread_intervals(self.observed, self.events)
        for name, outcome in self.outcomes.items():
            outcome.violations += double_readers(self.observed, name)
            for phase in ("before", "after"):
                marks = [e["ts_ms"] for e in self.events if e.get("group") == name
                         and e["what"] in (f"{phase}_begin", f"{phase}_end")]  # fmt: skip
                if len(marks) < 2:
                    continue
                rows = pg.open_run(self.folder / phase).table("rebalances").to_pylist()
                mine = [row for row in rows if row["group"] == name
                        and marks[0] <= row["time_ms"] <= marks[1] + 3_000]  # fmt: skip
                outcome.rebalances.append(len(mine))
                lost = sum(one.lost_ms for one in intervals if one.group == name
                           and marks[0] <= one.from_ms <= marks[1] + 3_000)  # fmt: skip
                outcome.unread.append(lost / 1_000)

    # --- claims of findings ----------------------------------------------------------------------

    def _try_claims(self) -> None:
        """Try what findings say of refused settings, classic members that stay, and static ids."""
        for lang in ("java", "confluent"):
            self._try_removed_settings(lang)
        self._try_mixed(next(one for one in self.groups if one.plan.name == "alerts"))
        self._try_static(next(one for one in self.groups if one.plan.name == "warehouse"))

    def _try_start(
        self, name: str, lang: str, options: dict[str, Any], topics: Iterable[str]
    ) -> str:
        """Start a member by itself, and return its first error or ``started``."""
        member = f"try-{name}"
        node = self._process(f"proc-{member}", lang)
        request: dict[str, Any] = {"do": "start", "id": member, "topics": list(topics),
                                   "silent": True}  # fmt: skip
        options = {**options, "bootstrap_servers": self.cluster.bootstrap}
        if lang == "java":
            texts = {k.replace("_", "."): str(v).lower() if isinstance(v, bool) else str(v)
                     for k, v in options.items()}  # fmt: skip
            request["properties"] = texts
        else:
            request["options"] = options
        node.tell(request)

        def seen() -> list[dict[str, Any]]:
            with self._lock:
                return [e for e in self.observed
                        if e["id"] == member and e["ev"] in ("poll_error", "assigned")]  # fmt: skip

        self._await(lambda: bool(seen()), f"{member} to start or to fail")
        node.close()
        found = seen()
        return "no answer" if not found else found[0].get("error", "started")

    def _try_removed_settings(self, lang: str) -> None:
        plan = Plan(f"try-{lang}", (lang,), ("mail",), ("uniform",), "consumer")
        options = client_options(plan, lang, plan.name, None)
        name = "partition.assignment.strategy" if lang == "java" else "session_timeout_ms"
        value = "org.apache.kafka.clients.consumer.RangeAssignor" if lang == "java" else 6_000
        seen = self._try_start(f"settings-{lang}", lang, {**options, name: value}, plan.topics)
        outcome = self.outcomes["billing" if lang == "java" else "search"]
        outcome.tried.append((f"group.protocol=consumer with {name.replace('_', '.')}", seen))

    def _try_mixed(self, group: RecordedGroup) -> None:
        """Let a Java member with the consumer protocol join a group of kafka-python members."""
        plan = group.plan
        group.plan = replace(plan, langs=("java",), protocol="consumer", strategy=("uniform",))
        self.add(group)
        self.await_start(group.members[-1].id, _START_S)
        joined = self._look(group, kind="consumer")
        self._stop(group, group.members[-1])
        group.plan = plan
        left = self._look(group, kind="classic")
        self.outcomes[plan.name].tried.append(
            ("a Java member with the consumer protocol joins, and leaves", f"{joined}; {left}")
        )

    def _try_static(self, group: RecordedGroup) -> None:
        """Start a process with the instance id of a running member of the consumer protocol."""
        plan = Plan("try-static", ("java",), ("mail",), ("uniform",), "consumer", static=True)
        options = client_options(plan, "java", "one", "i1")
        first = RecordedGroup(plan)
        self._group_of["holder"] = plan.name
        node = self._process("proc-holder", "java")
        texts = {k.replace("_", "."): str(v).lower() if isinstance(v, bool) else str(v)
                 for k, v in {**options, "bootstrap_servers": self.cluster.bootstrap}.items()}  # fmt: skip
        node.tell({"do": "start", "id": "holder", "topics": ["mail"], "silent": True,
                   "properties": texts})  # fmt: skip
        self._await(lambda: any(e["id"] == "holder" and e["ev"] == "assigned"
                                for e in list(self.observed)), "holder to start")  # fmt: skip
        seen = self._try_start("static", "java", options, first.plan.topics)
        node.close()
        self.outcomes[group.plan.name].tried.append(("a second process with a running id", seen))


_STEPS: tuple[tuple[str, Callable[..., str]], ...] = (
    (r"brokers: 4\.0 or later; kafka-features\.sh describe shows", Migrations._check_brokers),
    (r"clients: upgrade all members, still with the classic protocol$", Migrations._nothing),
    (r"set the group's session timeout on the broker", Migrations._set_session),
    (r"one member: group\.protocol=consumer, group\.remote\.assignor=(\w+), without the removed",
     Migrations._first_member),
    (r"check it for a day: partage groups shows kind consumer", Migrations._check_mixed),
    (r"restart the members one by one with the new settings$", Migrations._other_members),
    (r"record the group again and compare: partage diff$", Migrations._after_restarts),
    (r"restart the members one by one with group\.protocol=classic"
     r"(?:, session\.timeout\.ms=(\d+) as before)? and (partition\S+), the same in all members$",
     Migrations._restart_classic),
    (r"restart the members one by one with (partition.+)$", Migrations._restart_all),
    (r"the group becomes a classic group when its last member", Migrations._check_classic),
    (r"stop all members$", Migrations._stop_all),
    (r"start them with group\.protocol=consumer, group\.remote\.assignor=(\w+), without the removed",
     Migrations._start_consumers),
    (r"librdkafka cannot list eager and cooperative assignors together: stop all members$",
     Migrations._stop_all),
    (r"start them with (partition\S+)$", Migrations._start_all),
    (r"stop all members, start them with (partition\S+)$", Migrations._stop_and_start),
)  # fmt: skip


def strategies_of(setting: str) -> tuple[str, ...]:
    """Return the names of the strategies in a setting, as any client library writes it.

    >>> strategies_of("partition.assignment.strategy=a.b.CooperativeStickyAssignor,a.b.RangeAssignor")
    ('cooperative-sticky', 'range')
    >>> strategies_of("partition_assignment_strategy=[RoundRobinPartitionAssignor] in code")
    ('roundrobin',)
    >>> strategies_of("partition.assignment.strategy=cooperative-sticky,range")
    ('cooperative-sticky', 'range')
    """
    names = {"CooperativeSticky": "cooperative-sticky", "RoundRobin": "roundrobin"}
    listed = setting.partition("=")[2].removesuffix(" in code").strip("[]")
    found = (one.strip().rpartition(".")[2] for one in listed.split(","))
    plain = (re.sub(r"(Partition)?Assignor$", "", one) for one in found)
    return tuple(names.get(one, one.lower()) for one in plain)


def _shown(found: LiveGroup | None) -> str:
    return "no group" if found is None else f"{found.type} {found.strategy}".strip()


def _fill(outcome: Outcome, planned: Migration) -> None:
    outcome.status = planned.status
    outcome.changes = [one.title for one in planned.findings if one.kind in ("change", "blocker")]
    outcome.checks = [one.title for one in planned.findings if one.kind in ("check", "note")]
    effect = planned.effect
    if effect is not None:
        gain = None if effect.saves is None else [effect.saves.best, effect.saves.low, effect.saves.high]  # fmt: skip
        costs = [None if one is None else [one.best, one.low, one.high]
                 for one in (effect.deployment_now, effect.deployment)]  # fmt: skip
        outcome.forecast = {"policy": effect.policy, "now": effect.rebalances_now, "gain": gain,
                            "rebalances": effect.rebalances, "deployments": costs}  # fmt: skip


def double_readers(observed: Iterable[Mapping[str, Any]], group: str) -> list[str]:
    """Return a text for each partition that a second member was assigned before the first one had
    given it up, by the callbacks of the members.
    """
    owner: dict[tuple[str, int], str] = {}
    out = []
    for row in sorted(observed, key=lambda e: e["ts_ms"]):
        if row.get("group") != group:
            continue
        places = [(topic, p) for topic, numbers in row.get("parts", ()) for p in numbers]
        if row["ev"] == "assigned":
            for place in places:
                if owner.get(place, row["id"]) != row["id"]:
                    out.append(f"{place[0]}-{place[1]} was read by {owner[place]} and {row['id']}")
                owner[place] = row["id"]
        elif row["ev"] in ("revoked", "lost", "closed", "poll_error"):
            gone = (
                [p for p, m in owner.items() if m == row["id"]] if row["ev"] == "closed" else places
            )
            for place in gone:
                if owner.get(place) == row["id"]:
                    del owner[place]
    return out


def table(outcomes: Iterable[Mapping[str, Any]]) -> str:
    """Return the outcomes as a table in Markdown."""
    rows = ["| group | libraries | before | after | back | rebalances: recorded, simulated, true | "
            "unread before, after (partition-s) | forecast gain | true gain | violations |",
            "|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for one in outcomes:
        forecast, unread = one["forecast"], one["unread"]
        known = len(unread) == 2 and forecast
        gain = forecast.get("gain") if forecast else None
        cells = [
            one["group"], one["libraries"], one["before"], one["after"] or one["status"],
            one["back"] or "-",
            f"{one['rebalances'][0]}, {forecast['rebalances']} of {forecast['now']}, "
            f"{one['rebalances'][1]}" if known else "-",
            f"{unread[0]:.0f}, {unread[1]:.0f}" if known else "-",
            f"{gain[0]:.0f} ({gain[1]:.0f} to {gain[2]:.0f})" if gain else "-",
            f"{unread[0] - unread[1]:.0f}" if known else "-",
            str(len(one["violations"])),
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def migrate_live(out: Path, seed: int, names: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Record live migrations to a folder, and return the outcomes as dicts.

    Args:
        out: the folder.
        seed: seed of the recording.
        names: names of the groups; empty for all of `CASES`.
    """
    out.mkdir(parents=True, exist_ok=True)
    Migrations.folder, Migrations.names = out, tuple(names)
    recording = record(out, seed, 0.0, Migrations)
    rows = [asdict(one) for one in recording.outcomes.values()]
    (out / "outcomes.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--group", action="append", default=[], help="only this one; repeatable")
    given = parser.parse_args()
    print(table(migrate_live(given.out, given.seed, given.group)))


if __name__ == "__main__":
    main()
