"""The tables that a run writes: names, columns, and what each column means.

Written down as plain data, so that a reader (the report, a test) needs no pyarrow to know
a column; `schema` makes the pyarrow schema of it. Times are milliseconds since the epoch,
UTC, as Kafka wrote them. Order in a log is (log_partition, log_offset), never time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partage.tables.statuses import (
    CAUSE_KINDS,
    FAILED,
    NOT_REPLAYED,
    OFFSETS_ONLY,
    READINGS,
    RECORDED,
    REPLAYED,
    STATUSES,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "TABLES", "schema"]

# name -> ((column, type, meaning), ...); a type that ends in "?" may be null.
_Column = tuple[str, str, str]

_RUN: _Column = ("run_id", "string", "the run that wrote the row")
_GROUP: _Column = ("group", "string", "group id")
_INCARNATION: _Column = (
    "incarnation", "int32", "0, 1, ...: how often the group had been deleted before",
)  # fmt: skip
_GENERATION: _Column = ("generation", "int32", "generation, or epoch of a target assignment")


def _one_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])}, or {words[-1]}"


COLUMNS: dict[str, tuple[_Column, ...]] = {
    "groups": (
        _RUN,
        _GROUP,
        ("kind", "string", f"classic, consumer, share, streams, a '+' of these, or {OFFSETS_ONLY}"),
        ("status", "string", _one_of((REPLAYED, NOT_REPLAYED, OFFSETS_ONLY, FAILED))),
        ("why", "string?", "why a group was not replayed, or what failed"),
        ("traceback", "string?", "Python's traceback of the exception, where the group failed"),
        ("log_partition", "int32", "partition of __consumer_offsets that has the group"),
        ("records", "int64", "records of the group that are not offset commits"),
        ("commits", "int64", "offset commits that took effect"),
        ("rebalances", "int32", "rows in table rebalances"),
        ("incarnations", "int32", "lives of the group, parted by tombstones"),
        ("missing_generations", "int64", "generations known to have been, but not in the log"),
        ("first_ms", "int64?", "time of its first record in the log (commits aside)"),
        ("last_ms", "int64?", "time of its last record in the log (commits aside)"),
        ("claimed", "list<string>", "strategies that the group chose, in order of appearance"),
        ("clients", "list<string>", "client libraries of its members, deduced from the bytes"),
        ("coverage", "double?", "recorded generations by known ones; null if none is known"),
        ("members_max", "int32?", "members of its largest generation"),
        ("partitions_max", "int32?", "partitions of its largest assignment"),
    ),
    "events": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("log_partition", "int32", "partition of __consumer_offsets"),
        ("log_offset", "int64", "offset of the record that tells of it"),
        ("position", "int32", "order among the events of one record, from 0"),
        ("time_ms", "int64", "when it happened, by the timestamp of a record that tells of it"),
        (
            "event",
            "string",
            "created, rebalance, taken over, rewritten, emptied, deleted, migrated, gap, join, "
            "leave, expiry, poll, bounce, restart, away, resubscription, strategy, topics, "
            "follow-up, leader, or coordinator",
        ),
        ("member", "string?", "member id, where it is about one"),
        ("instance", "string?", "its group.instance.id"),
        ("source", "string", "recorded: a record says so; inferred: from two records"),
        ("detail", "string?", "a few words, e.g. the strategy before and after"),
    ),
    "rebalances": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("log_partition", "int32", "partition of __consumer_offsets"),
        ("log_offset", "int64", "offset of the generation's first record"),
        ("time_ms", "int64", "timestamp of that record"),
        ("state_time_ms", "int64?", "its currentStateTimestamp; null before value version 2"),
        ("cluster_ms", "int64?", "ts_ms of the cluster state it was replayed on"),
        ("protocol_type", "string?", "consumer, connect, ...; empty before anybody joined"),
        ("strategy", "string?", "strategy claimed: the protocol the group chose; null when empty"),
        ("leader", "string?", "member id of the leader; null where the coordinator decided"),
        ("leader_client", "string?", "library of the leader, deduced from the bytes it sent"),
        ("members", "int32", "members of the generation"),
        ("partitions", "int32", "partitions in the recorded assignment, each copy counted"),
        ("records", "int32", "records of this generation; more than one is no second rebalance"),
        ("gap_before", "int64", "generations missing from the log right before this one"),
        ("cause", "string", "inferred: what differs from the generation before"),
        ("follow_up", "bool", "nothing differs: cooperative second step, or a client's wish"),
        ("joined", "int32", "members that were not in the generation before"),
        ("left", "int32", "members that are no longer there"),
        ("restarted", "int32", "static members that came back under a new member id"),
        ("resubscribed", "int32", "members whose subscribed topics changed"),
        ("clients", "list<string>", "client libraries of the members, deduced from the bytes"),
        ("replayed", "bool", "whether strategies were run on it"),
        ("why_not", "string?", "why not"),
        ("protocol", "string", "classic, consumer, share or streams"),
        ("cause_kind", "string", f"the cause that counts: {_one_of(CAUSE_KINDS)}"),
        ("cause_source", "string", "recorded: a record says so; inferred: from what differs"),
        ("storm", "int32?", "number of the storm of rebalances it belongs to"),
        ("stopped_low_ms", "int64?", "its length at least, by the members' commits around it"),
        ("stopped_high_ms", "int64?", "its length at most, by the members' commits around it"),
        ("agrees", "bool?", "the record is what the claimed strategy decides; null: not judged"),
        ("judged_by", "string?", "the strategy or dialect that was asked"),
        (
            "disagreement",
            "string?",
            "why the record differs from its plan, or unexplained; with agrees null: the"
            " strategy does not terminate on the recorded input",
        ),
        ("assumed", "string?", "what the verdict takes for granted: the log does not tell it"),
    ),
    "members": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("position", "int32", "order in the record"),
        ("member", "string", "member id"),
        ("instance", "string?", "group.instance.id of a static member"),
        ("client_id", "string", "client.id"),
        ("client_host", "string", "address it came from"),
        ("client", "string", "library: java, librdkafka, kafka-python or aiokafka, unknown"),
        ("certainty", "string", "certain, likely or unknown: how sure the library is"),
        ("leader", "bool", "whether it led this generation"),
        ("rack", "string?", "client.rack as sent; null and empty differ"),
        ("session_timeout_ms", "int32", "session.timeout.ms; -1: none sent, the broker's counts"),
        ("rebalance_timeout_ms", "int32", "time it has to join again (max.poll.interval.ms)"),
        ("subscription", "string?", "content hash of its topics: equal ones are equal here"),
        ("topics", "list<string>", "subscribed topics in the order sent"),
        ("subscription_version", "int32?", "version of its subscription; null if not readable"),
        ("user_data", "binary?", "user data of the subscription; null and empty differ"),
        ("claims", "list<topic_partitions>", "what it said it owns, as sent; its target before"),
        ("claims_generation", "int32", "generation of the claims, -1 if none was sent"),
        ("assignment_version", "int32?", "version of its assignment; null if not readable"),
        ("assignment", "list<topic_partitions>", "what it was given, in the order stored"),
    ),
    "ownership": (
        _RUN,
        _GROUP,
        _INCARNATION,
        ("topic_id", "string?", "topic id at the time; null where the cluster had no such topic"),
        ("topic", "string", "topic name"),
        ("partition", "int32", "partition number"),
        (
            "member",
            "string",
            "member id; a static member that restarts has a row for each of its ids",
        ),
        ("instance", "string?", "its group.instance.id"),
        ("role", "string", "owner, releasing, active, standby, or warmup"),
        ("from_ms", "int64", "time of the record that gave it"),
        ("to_ms", "int64?", "time of the record that took it; null while it lasts"),
        ("from_generation", "int32", "generation that gave it"),
        ("to_generation", "int32?", "generation that took it; null while it lasts"),
    ),
    "commit_rates": (
        _RUN,
        _GROUP,
        ("topic", "string", "topic name"),
        ("partition", "int32", "partition number"),
        ("minute_ms", "int64", "beginning of the minute"),
        ("first_offset", "int64?", "first offset committed in it; null if only tombstones"),
        ("last_offset", "int64?", "last offset committed in it"),
        ("commits", "int64", "commits that took effect in it"),
        ("transactional", "int64", "of these, commits that took effect at a marker"),
        ("tombstones", "int64", "committed offset removed: topic or group deleted, or expired"),
        ("largest_gap_ms", "int64?", "longest wait for the next commit that ended in it"),
    ),
    "commits": (
        _RUN,
        _GROUP,
        ("topic", "string", "topic name"),
        ("partition", "int32", "partition number"),
        ("log_partition", "int32", "partition of __consumer_offsets"),
        ("log_offset", "int64", "offset from which on it counts: its own, or its marker's"),
        ("time_ms", "int64", "time from which on it counts"),
        ("offset", "int64?", "the committed offset; null: what was committed is forgotten"),
        ("leader_epoch", "int32?", "epoch of the leader of the record that was read last"),
        ("commit_ms", "int64?", "when the coordinator took it, by the value"),
        ("topic_id", "string?", "topic id, where the commit has one"),
        ("transactional", "bool", "whether it took effect at a marker"),
    ),
    "pauses": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("topic", "string", "topic name"),
        ("partition", "int32", "partition number"),
        ("last_ms", "int64?", "last commit before the rebalance's record"),
        ("first_ms", "int64?", "first commit after it"),
        ("pause_ms", "int64?", "from the one to the other"),
        ("rewind", "int64?", "records read twice at least: how far offsets went back"),
        ("resolution_ms", "int64?", "usual time between two commits there"),
        ("advance", "int64?", "how far offsets went on; 0: nothing was read, or there to be read"),
    ),
    "replays": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("policy", "string", f"policy, see docs/policies.md; {RECORDED!r} is what the log has"),
        ("strategy", "string", f"its strategy; {RECORDED!r} is what the log has"),
        ("protocol", "string", "eager, cooperative or consumer; of the record, its own"),
        ("reading", "string", _one_of(READINGS)),
        ("step", "int32", "0, then 1, ... for what follows from it (second phases, late expiries)"),
        ("caused", "bool", "false: under this policy this rebalance does not happen"),
        ("time_ms", "int64", "when it happens under this policy"),
        ("status", "string", _one_of(STATUSES)),
        ("claimed", "bool", "whether the group had chosen its strategy"),
        ("agrees", "bool?", "the record is its plan; only where claimed and it could be run"),
        ("counts", "bool", "whether the agreement counts: members are all Java, strategy exact"),
        ("judged_by", "string?", "whose rule the agreement is about: the leader's dialect, or it"),
        (
            "detail",
            "string?",
            "why it refused, failed or does not happen; or why record and plan differ",
        ),
        ("partitions", "int32?", "partitions assigned"),
        ("members", "int32?", "members that took part"),
        ("spread", "int32?", "largest minus smallest load of members that could have some"),
        ("best_spread", "int32?", "spread of the best plan there is for the problem"),
        ("idle", "int32?", "members without any partition that could have some"),
        ("moved", "int32?", "partitions that went from one living member to another"),
        ("avoidable", "int32?", "of these, moves that no equally even plan needs"),
        ("stopped_low_ps", "double?", "partition-seconds in which nobody read, at least"),
        ("stopped_high_ps", "double?", "partition-seconds in which nobody read, at most"),
        ("reread_low", "int64?", "records read twice, at least"),
        ("reread_high", "int64?", "records read twice, at most"),
        ("load_spread", "double?", "largest minus smallest load in records a second, as committed"),
        ("rack_mismatches", "int32?", "partitions owned outside the racks of their replicas"),
        ("colocation", "double?", "share of equal partition numbers with one owner"),
        ("breaches", "int32?", "rules that the judge found broken"),
        ("changed", "int32?", "partitions with another owner than in the record"),
        ("plan", "string?", "the plan as JSON: member -> topic -> numbers"),
    ),
    "bad_records": (
        _RUN,
        ("partition", "int32?", "partition of __consumer_offsets"),
        ("offset", "int64?", "offset in it"),
        ("timestamp_ms", "int64?", "the record's timestamp"),
        ("part", "string", "key, value or row: the part that is damaged"),
        ("why", "string", "what is wrong, with field and byte"),
        ("group", "string?", "group id, where the key could be read"),
        ("key", "binary?", "the key's bytes"),
        ("value", "binary?", "the value's bytes"),
    ),
    "runs": (
        _RUN,
        ("capture", "string", "the folder that was read"),
        ("started_ms", "int64", "when the run began"),
        ("ended_ms", "int64", "when its tables were complete"),
        ("partage", "string", "version of Partage"),
        ("records", "int64", "records read"),
        ("decoded", "int64", "records decoded"),
        ("bad", "int64", "records that could not be"),
        ("settings", "string", "JSON: strategies, Spark settings, versions"),
        ("coverage", "string", "JSON: how much of the history the log still has"),
    ),
}

TABLES: tuple[str, ...] = tuple(COLUMNS)


def schema(table: str) -> pa.Schema:
    """The pyarrow schema of a table.

    Raises:
        KeyError: there is no such table.

    >>> schema("ownership").field("to_ms").nullable, schema("runs").names[0]
    (True, 'run_id')
    """
    import pyarrow as pa

    return pa.schema(
        pa.field(name, _type(kind.rstrip("?")), nullable=kind.endswith("?"))
        for name, kind, _ in COLUMNS[table]
    )


def _type(kind: str) -> Any:
    import pyarrow as pa

    topic_partitions = pa.struct(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partitions", pa.list_(pa.int32()), nullable=False),
        ]
    )
    return {
        "string": pa.string(),
        "binary": pa.binary(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "list<string>": pa.list_(pa.string()),
        "list<topic_partitions>": pa.list_(topic_partitions),
    }[kind]
