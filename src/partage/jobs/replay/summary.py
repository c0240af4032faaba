"""Totals of a replay: workers count by group and policy, the driver writes ``summary.json``.

`GroupTotals` and `SimulationTotals` are made in the tasks and merged in the driver. `build_summary`
makes the summary of them: coverage, record counts, agreement, policies, groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partage.errors import AccountingError
from partage.groups import registry
from partage.history.agreement import Verdict
from partage.history.events import Generation
from partage.history.records import LogPosition
from partage.history.streams_application import STREAMS_PROTOCOL
from partage.tables.schemas import TABLES
from partage.tables.statuses import (
    CUMULATIVE,
    FAILED,
    NOT_REPLAYED,
    NOT_YET,
    OFFSETS_ONLY,
    PER_REBALANCE,
    READINGS,
    RECORDED,
    REPLAYED,
)
from partage.tables.sums import Sums, add_sums, json_metrics, sum_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.output import Receipt
    from partage.jobs.replay.replay import JobResults
    from partage.jobs.replay.tally import RecordTally

__all__ = [
    "GroupTotals",
    "SimulationTotals",
    "Summary",
    "build_summary",
    "check_record_counts",
]

# -- totals of groups and simulations --------------------------------------------------------------

#: Disagreements and failures that a task lists per group; the counts include all of them.
_MOST_LISTED_OF_GROUP = 20
_COUNTS = {"counted": 0, "agreed": 0}


class GroupTotals:
    """Counts of one consumer group's records, offset commits and rebalances.

    They become its row of table ``groups`` and its entry in the summary.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.commits = 0
        self.incarnations = 0
        self._kinds: list[str] = []
        self._place: LogPosition | None = None
        self._records = 0
        self._times: list[int] = []
        self._rebalances = 0
        self._members_max = 0
        self._partitions_max = 0
        self._replayed = 0
        self._whys: dict[str, int] = {}
        self._claimed: dict[str, int] = {}
        self._clients: set[str] = set()
        self._missing = (0, 0)
        self._causes: dict[str, dict[str, int]] = {}
        #: First and last time of all records, offset commits included; partitions of the group log.
        self.seen_ms: tuple[int, int] | None = None
        self.log_partitions: set[int] = set()

    def export_state(self) -> dict[str, Any]:
        """Return the consumer group's counts as plain values.

        They are stored, so that a later run can continue the group's history.
        """
        return {n: frozenset(v) if isinstance(v, set) else v for n, v in vars(self).items()}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the consumer group's counts from the values that `export_state` returned.

        Records that are processed afterwards are added to these counts.
        """
        for name, value in state.items():
            setattr(self, name, set(value) if isinstance(value, frozenset) else value)

    def count_record(self, kind: str, log_position: LogPosition, time_ms: int) -> None:
        """Count a log record of the consumer group that is not an offset commit.

        Args:
            kind: group protocol of the record, such as ``classic``.
            log_position: its position in the log.
            time_ms: its time.
        """
        if kind not in self._kinds:
            self._kinds.append(kind)
        self._place = self._place or log_position
        self._records += 1
        self._times = [min([*self._times, time_ms]), max([*self._times, time_ms])]
        self.extend_span(log_position.partition, time_ms, time_ms)

    def extend_span(self, log_partition: int, first_ms: int, last_ms: int) -> None:
        """Extend the first and last record time of the consumer group, and add a log partition.

        Args:
            log_partition: partition of ``__consumer_offsets`` with further records.
            first_ms: first time of these records.
            last_ms: last time of these records.
        """
        self.log_partitions.add(log_partition)
        first, last = self.seen_ms or (first_ms, last_ms)
        self.seen_ms = (min(first, first_ms), max(last, last_ms))

    def set_first_position(self, log_position: LogPosition) -> None:
        """Set the first log position of the consumer group, unless it is already known.

        It is used for offset commits, because a group may have no other records.
        """
        self._place = self._place or log_position

    def set_missing(self, before_first: int, within: int) -> None:
        """Store how many generations of the consumer group are missing in the log.

        Compaction has removed them. The numbers are the gaps in the generation numbers.

        Args:
            before_first: number of generations before the group's first record.
            within: number of generations between its records.
        """
        self._missing = (before_first, within)

    def count_rebalance(self, rebalance_row: dict[str, Any]) -> None:
        """Count a rebalance of the consumer group, with its cause, strategy and clients.

        ``rebalance_row`` is its row of table ``rebalances``.
        """
        self._rebalances += 1
        self._members_max = max(self._members_max, rebalance_row["members"])
        self._partitions_max = max(self._partitions_max, rebalance_row["partitions"])
        self._replayed += rebalance_row["replayed"]
        if rebalance_row["why_not"] is not None:
            self._whys[rebalance_row["why_not"]] = self._whys.get(rebalance_row["why_not"], 0) + 1
        if rebalance_row["strategy"] is not None:
            self._claimed[rebalance_row["strategy"]] = (
                self._claimed.get(rebalance_row["strategy"], 0) + 1
            )
        self._clients.update(rebalance_row["clients"])
        cause = self._causes.setdefault(rebalance_row["cause_kind"], {"recorded": 0, "inferred": 0})
        cause[rebalance_row["cause_source"]] += 1

    def to_table_row(self) -> dict[str, Any]:
        """Return the consumer group's row of table ``groups``, without the group id.

        It has, for example, the numbers of records, commits and rebalances.
        """
        status, why = self._find_status()
        known = self._rebalances + sum(self._missing)
        return {
            "kind": "+".join(self._kinds) or OFFSETS_ONLY,
            "status": status,
            "why": why,
            "traceback": None,
            "log_partition": self._place.partition if self._place else -1,
            "records": self._records,
            "commits": self.commits,
            "rebalances": self._rebalances,
            "incarnations": self.incarnations,
            "missing_generations": sum(self._missing),
            "first_ms": self._times[0] if self._times else None,
            "last_ms": self._times[1] if self._times else None,
            "claimed": list(self._claimed),
            "clients": sorted(self._clients),
            "coverage": self._rebalances / known if known else None,
            "members_max": self._members_max if self._rebalances else None,
            "partitions_max": self._partitions_max if self._rebalances else None,
        }

    def _find_status(self) -> tuple[str, str | None]:
        """Return the consumer group's status, and the reason if no rebalance was simulated.

        For example, a group may have committed offsets without any members.
        """
        if not self._kinds:
            return OFFSETS_ONLY, None
        if self._replayed:
            return REPLAYED, None
        return NOT_REPLAYED, next(
            (why for why in self._whys if why != "no members"), "no member ever joined"
        )

    def to_summary(self) -> dict[str, Any]:
        """Return the consumer group's entry in ``summary.json``, as a dict.

        It has the columns of table ``groups`` and counts by cause.
        """
        return {
            "group": self.name,
            **self.to_table_row(),
            "missing_before": self._missing[0],
            "missing_within": self._missing[1],
            "not_replayed": self._whys,
            "claims": self._claimed,
            "causes": self._causes,
        }


class SimulationTotals:
    """Metrics of simulated rebalances, summed by consumer group and policy.

    Each task has its own sums, and the driver merges them. Verdicts are counted too: whether a
    group's strategy computes the recorded assignment.

    Attributes:
        groups: sums of rows by group and by "policy|simulation", see `partage.tables.sums`.
        verdicts_of: numbers of assignments compared and equal, by group, by "protocol|kind of
            comparison" and by strategy.
        disagreements: dict from group to the first recorded assignments that differ from the
            strategy's.
        failures: dict from group to the first exceptions that strategies raised.
        strategies_of: names of the simulated strategies, by group and by "policy|simulation".
        not_yet_of: numbers of rebalances with a strategy that Partage does not implement, by group
            and by strategy.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, Sums]] = {}
        self.verdicts_of: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
        self.disagreements: dict[str, list[dict[str, Any]]] = {}
        self.failures: dict[str, list[dict[str, Any]]] = {}
        self.strategies_of: dict[str, dict[str, list[str]]] = {}
        self.not_yet_of: dict[str, dict[str, int]] = {}

    @property
    def verdict_counts(self) -> dict[str, dict[str, dict[str, int]]]:
        """Numbers of recorded assignments that were compared with Partage's, and that were equal.

        The result is a nested dict: by kind of comparison, then by strategy, to a pair of numbers.
        """
        found: dict[str, dict[str, dict[str, int]]] = {}
        for group in sorted(self.verdicts_of):
            for kind, strategies in self.verdicts_of[group].items():
                _add_verdicts(found.setdefault(kind, {}), strategies)
        return found

    @property
    def simulated_strategies(self) -> dict[str, list[str]]:
        """Names of the assignment strategies that were simulated for each policy in any group.

        The policy named `own` simulates each group with its recorded strategy, so it may have
        several. The keys are "policy|kind of simulation".
        """
        found: dict[str, list[str]] = {}
        for of_group in self.strategies_of.values():
            for key, names in of_group.items():
                _add_names(found, key, names)
        return found

    @property
    def not_yet(self) -> dict[str, int]:
        """Number of recorded rebalances for each assignment strategy that Partage cannot simulate.

        The result is a dict with names of strategies as keys, added up over all consumer groups.
        """
        found: dict[str, int] = {}
        for counts in self.not_yet_of.values():
            found = add_sums(found, counts)
        return found

    def add_rows(self, rows: pa.Table) -> None:
        """Add the metrics of simulated rebalances to the sums of their group and policy.

        ``rows`` are rows of the output table ``replays``, one for each simulated rebalance.
        """
        from pyarrow import compute as pc

        for sums in sum_rows(rows, ["group", "policy", "reading"]):
            group, key = sums.pop("group"), f"{sums.pop('policy')}|{sums.pop('reading')}"
            self._add_sums(group, key, sums)
        keys = ["group", "policy", "reading", "strategy"]
        names = rows.group_by(keys, use_threads=False).aggregate([])
        for row in names.to_pylist():
            of_group = self.strategies_of.setdefault(row["group"], {})
            _add_names(of_group, f"{row['policy']}|{row['reading']}", [row["strategy"]])
        columns = ["group", "generation", "strategy", "reading", "status", "detail"]
        status = rows["status"]
        unusual = pc.or_(pc.equal(status, NOT_YET), pc.equal(status, FAILED))
        for row in rows.filter(unusual).select(columns).to_pylist():
            if row["status"] == FAILED:
                self._list(self.failures, row["group"], row["generation"], row["strategy"],
                           row["detail"])  # fmt: skip
            elif row["reading"] == PER_REBALANCE:
                counts = self.not_yet_of.setdefault(row["group"], {})
                counts[row["strategy"]] = counts.get(row["strategy"], 0) + 1

    def add_verdict(self, group: str, generation: Generation, verdict: Verdict) -> None:
        """Count whether Partage's strategy computes the assignment that was recorded.

        Args:
            group: the group id.
            generation: the generation with the recorded assignment.
            verdict: the result of the comparison.
        """
        if verdict.agrees is None:
            return
        claimed = generation.first.strategy or generation.protocol
        if claimed == STREAMS_PROTOCOL and verdict.judged_by is not None:
            claimed = verdict.judged_by  # leaders of Kafka Streams claim "stream", no assignor
        foreign = verdict.judged_by not in (None, claimed)
        name = str(verdict.judged_by) if foreign else claimed
        # An assignment carried over in a migration is judged by its origin, which is no dialect.
        dialect = foreign and all(registry.is_dialect(one) for one in name.split(" or "))
        counts = verdict.counts and not foreign
        kind = "by_dialect" if dialect else "by_strategy" if counts else "others"
        of_group = self.verdicts_of.setdefault(group, {})
        found = {name: {"counted": 1, "agreed": int(verdict.agrees)}}
        _add_verdicts(of_group.setdefault(f"{generation.protocol}|{kind}", {}), found)
        if not verdict.agrees and verdict.counts:
            self._list(
                self.disagreements, group, generation.generation_number, claimed, verdict.why
            )

    def _add_sums(self, group: str, key: str, sums: Sums) -> None:
        policies = self.groups.setdefault(group, {})
        policies[key] = add_sums(policies.get(key, {}), sums)

    @staticmethod
    def _list(
        lists: dict[str, list[dict[str, Any]]],
        group: str,
        generation: int,
        strategy: str,
        why: str | None,
    ) -> None:
        rows = lists.setdefault(group, [])
        if len(rows) < _MOST_LISTED_OF_GROUP:
            rows.append({"group": group, "generation": generation, "strategy": strategy,
                         "why": why})  # fmt: skip

    def to_json(self) -> str:
        """Return the sums of this task as JSON text.

        The driver adds up the texts of all tasks with `merge_totals`.
        """
        return json.dumps(vars(self))

    def of_group(self, group: str) -> str:
        """Return the sums of one consumer group as JSON text.

        A later run adds them with `merge_totals` if the group has no new records.
        """
        parts = vars(self).items()
        return json.dumps({n: {group: of[group]} if group in of else {} for n, of in parts})

    def merge_totals(self, totals_json: str) -> None:
        """Add the sums of another task's simulations, given as the JSON text that `to_json`
        returned.

        A group may be simulated by several tasks, so its sums are added up, too.
        """
        other = json.loads(totals_json)
        for group, policies in other["groups"].items():
            for key, sums in policies.items():
                self._add_sums(group, key, sums)
        for group, kinds in other["verdicts_of"].items():
            of_group = self.verdicts_of.setdefault(group, {})
            for kind, strategies in kinds.items():
                _add_verdicts(of_group.setdefault(kind, {}), strategies)
        for own, name in ((self.disagreements, "disagreements"), (self.failures, "failures")):
            for group, more in other[name].items():
                rows = [*own.get(group, []), *more]
                rows.sort(key=lambda r: (r["generation"], r["strategy"], str(r["why"])))
                own[group] = rows[:_MOST_LISTED_OF_GROUP]
        for group, counts in other["not_yet_of"].items():
            self.not_yet_of[group] = add_sums(self.not_yet_of.get(group, {}), counts)
        for group, strategies in other["strategies_of"].items():
            for key, names in strategies.items():
                _add_names(self.strategies_of.setdefault(group, {}), key, names)

    def metrics_by_policy(self) -> dict[str, Sums]:
        """Return the metrics of each policy, summed over all groups, with the number of groups.

        The keys are "policy|kind of simulation".
        """
        found: dict[str, Sums] = {}
        for group in sorted(self.groups):  # sums of floats depend on their order
            for key, sums in self.groups[group].items():
                found[key] = add_sums(found.get(key, {}), {"groups": 1, **sums})
        return found


def _add_verdicts(
    totals: dict[str, dict[str, int]], further_counts: Mapping[str, Mapping[str, int]]
) -> None:
    """Add numbers of compared and of equal assignments to the totals of each strategy.

    Both arguments are dicts from strategy to these two numbers; ``totals`` is changed.
    """
    for name, counts in further_counts.items():
        totals[name] = add_sums(totals.get(name, _COUNTS), counts)


def _add_names(names: dict[str, list[str]], key: str, new_names: Iterable[str]) -> None:
    """Append names to the list of a key in a dict of lists, without duplicates.

    The list is created if the key is new.
    """
    known = names.setdefault(key, [])
    known += [name for name in new_names if name not in known]


# -- content of summary.json ---------------------------------------------------------------------

#: Groups listed in the summary; table ``groups`` has all.
_MOST_GROUPS = 2_000
#: Disagreements, and failures of strategies, listed in the summary; the tables have all.
_MOST_LISTED = 200

#: The content of ``summary.json``.
Summary = dict[str, Any]


def check_record_counts(
    records: int | None, tally: RecordTally, written: Sequence[Receipt]
) -> dict[str, Any]:
    """Check that each record of the input was decoded or has a row in table ``bad_records``.

    A run whose counts differ is not published. Return the counts of records by type and outcome,
    for the summary.

    Args:
        records: number of records according to the metadata of the files; None if unknown.
        tally: counts of the decode job.
        written: receipts of all files.

    Raises:
        AccountingError: the counts differ.
    """
    in_table = sum(r.rows for r in written if r.table == "bad_records")
    counts = {
        **({} if records is None else {"records in the files": records}),
        "records read": tally.rows,
        "decoded + bad": tally.decoded_records + tally.bad,
        "decoded + rows of bad_records": tally.decoded_records + in_table,
    }
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} {n}" for name, n in counts.items())
        raise AccountingError(f"the run does not add up and is not published: {found}")
    of_commits = sum(tally.commits.values())
    return {
        "records": tally.rows,
        "decoded": tally.decoded_records,
        "bad": tally.bad,
        "offset_commits": of_commits,
        "group_records": tally.decoded_records - of_commits,
        "commits_by_outcome": dict(sorted(tally.commits.items())),
        "by_type": dict(sorted(tally.types.items(), key=lambda kv: (int(kv[0].split()[0]), kv[0]))),
    }


def measure_coverage(results: JobResults, groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the time span of the log, and the share of group generations that it still contains.

    Compaction removes records of earlier generations, so a log does not show all rebalances.

    Args:
        results: the results of the run's jobs.
        groups: the totals of each group.
    """
    tally = results.tally
    before = sum(g["missing_before"] for g in groups)
    within = sum(g["missing_within"] for g in groups)
    rebalances = sum(g["rebalances"] for g in groups)
    known = rebalances + before + within
    statuses: dict[str, int] = {}
    for g in groups:
        statuses[g["status"]] = statuses.get(g["status"], 0) + 1
    first_ms, last_ms, misdated = tally.time_range()
    return {
        "first_ms": first_ms,
        "last_ms": last_ms,
        "misdated": misdated,
        "groups": len(groups),
        "groups_by_status": dict(sorted(statuses.items())),
        "rebalances": rebalances,
        "missing_before": before,
        "missing_within": within,
        "share": rebalances / known if known else None,  # no share of nothing
        "transactions": _transaction_coverage(results.capture),
        "cluster": INFERRED if results.inferred else "recorded",
        "cluster_states": len(results.states),
        "cluster_from_ms": _first_recorded_metadata_ms(results),
        "log_partitions": _describe_log_partitions(tally),
    }


def _first_recorded_metadata_ms(results: JobResults) -> int | None:
    """Return the time (ms) of the first recorded cluster metadata if the log begins earlier.

    Metadata of the time before is inferred or assumed. The result is None if there is no such time.
    """
    known = [s["ts_ms"] for s in results.states if not s.get("assumed")]
    assumed = not results.inferred and any(s.get("assumed") for s in results.states)
    return min(known) if assumed and known else None


def _transaction_coverage(capture: Capture) -> str:
    """Return whether the log shows which transactions were committed, as text for the summary.

    The text is "known", or "unknown" with the reason.
    """
    if capture.batches is not None:
        return "known"
    if str(capture.folder).startswith("kafka://"):
        return "unknown: read_committed, and no markers"
    return "unknown: no batches.parquet"


#: Description of the metadata of a capture without cluster.jsonl.
INFERRED = "inferred: partition counts from assignments and commits, racks unknown"


def _describe_log_partitions(tally: RecordTally) -> dict[str, dict[str, Any]]:
    """Return the first and last offset and the number of records of each log partition.

    Field ``in_order`` is True if no two tasks have read overlapping offset ranges.
    """
    out: dict[str, dict[str, Any]] = {}
    for p, ranges in sorted(tally.ranges.items()):
        ranges.sort()
        overlap = any(a[1] >= b[0] for a, b in pairwise(ranges))
        out[str(p)] = {
            "first_offset": ranges[0][0],
            "last_offset": max(r[1] for r in ranges),
            "records": sum(r[2] for r in ranges),
            "in_order": not overlap,
        }
    return out


def count_agreement(totals: SimulationTotals) -> dict[str, Any]:
    """Count the recorded assignments that Partage's strategies reproduce exactly.

    In the result, ``counted`` and ``agreed`` are the numbers of compared and of equal assignments
    by Java clients and by the coordinator. Assignments by other client libraries are counted
    separately (``by_dialect``).
    """
    by: dict[str, dict[str, dict[str, int]]] = {"by_strategy": {}, "by_dialect": {}, "others": {}}
    protocols: dict[str, dict[str, int]] = {}
    for key, names in totals.verdict_counts.items():
        protocol, where = key.split("|")
        for name, counts in names.items():
            _add(by[where], name, counts)
            if where == "by_strategy":
                _add(protocols, protocol, counts)
    listed = [d for group in sorted(totals.disagreements) for d in totals.disagreements[group]]
    return {
        "counted": sum(s["counted"] for s in by["by_strategy"].values()),
        "agreed": sum(s["agreed"] for s in by["by_strategy"].values()),
        **{where: dict(sorted(names.items())) for where, names in by.items()},
        "by_protocol": dict(sorted(protocols.items())),
        "disagreements": listed[:_MOST_LISTED],
    }


def _add(totals: dict[str, dict[str, int]], name: str, counts: dict[str, int]) -> None:
    totals[name] = add_sums(totals.get(name, {}), counts)


def summarise_policies(totals: SimulationTotals) -> list[dict[str, Any]]:
    """Return the metrics of each policy as rows for the summary, recorded assignments first.

    Metrics, such as moved partitions, are summed over all consumer groups.
    """
    rows = []
    for key, of_key in totals.metrics_by_policy().items():
        policy, _, reading = key.rpartition("|")
        names = sorted(totals.simulated_strategies[key])
        row = {"policy": policy, "reading": reading, "strategies": names}
        rows.append({**row, "groups": of_key["groups"], **json_metrics(of_key)})
    return sorted(rows, key=lambda r: (READINGS.index(r["reading"]), r["policy"]))


def summarise_strategies(totals: SimulationTotals) -> dict[str, Any]:
    """Return the entry ``strategies`` of ``summary.json``: the results of each policy.

    Its field ``run`` has the metrics of each policy. Field ``not_yet`` has the number of rebalances
    for each recorded strategy that Partage does not implement.
    """
    run = {
        r["policy"]: r for r in summarise_policies(totals) if r["reading"] in (RECORDED, CUMULATIVE)
    }
    return {"run": run, "not_yet": dict(sorted(totals.not_yet.items()))}


def count_causes(groups: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the number of rebalances by cause, such as a session timeout; most frequent first.

    Recorded and inferred causes are counted separately. ``groups`` are the totals of each group.
    """
    totals: dict[str, dict[str, int]] = {}
    for g in groups:
        for kind, sources in g["causes"].items():
            totals[kind] = add_sums(totals.get(kind, {}), sources)
    return dict(sorted(totals.items(), key=lambda kv: (-sum(kv[1].values()), kv[0])))


def build_summary(results: JobResults) -> Summary:
    """Build the content of ``summary.json`` from the results of the run's jobs.

    Run times and software versions are added later.
    """
    accounting = check_record_counts(results.capture.records, results.tally, results.receipts)
    known = sorted((json.loads(g) for g in results.groups), key=lambda g: g["group"])
    rows = dict.fromkeys(TABLES, 0) | {"runs": 1}
    for receipt in results.receipts:
        rows[receipt.table] += receipt.rows
    failures = [
        f for g in sorted(results.simulated.failures) for f in results.simulated.failures[g]
    ]
    by_size = sorted(known, key=lambda g: (-g["rebalances"], g["group"]))
    return {
        "coverage": measure_coverage(results, known),
        "accounting": accounting,
        "agreement": count_agreement(results.simulated),
        "causes": count_causes(known),
        "policies": summarise_policies(results.simulated),
        "strategies": summarise_strategies(results.simulated),
        "failures": failures[:_MOST_LISTED],
        "tables": dict(sorted(rows.items())),
        "groups": by_size[:_MOST_GROUPS],
        "groups_not_listed": max(0, len(by_size) - _MOST_GROUPS),
        "session_timeout_ms": results.session_timeout_ms,
    }
