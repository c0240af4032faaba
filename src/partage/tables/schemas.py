"""The tables of a run: names, columns, types and descriptions.

The declarations are plain data, so that a reader needs no pyarrow to look up a column; `schema`
makes a pyarrow schema of them. Times are milliseconds since the epoch (UTC) as Kafka wrote them.
Records of a log are ordered by (log_partition, log_offset), never by time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partage.tables.metrics import REPLAY_COLUMNS, Column
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

__all__ = ["COLUMNS", "SIMULATED_COLUMNS", "TABLES", "describe_tables", "table_schema"]

_RUN: Column = ("run_id", "string", "run that wrote the row")
_GROUP: Column = ("group", "string", "group id")
_INCARNATION: Column = ("incarnation", "int32", "number of earlier deletions of the group, from 0")
_GENERATION: Column = ("generation", "int32", "generation, or epoch of a target assignment")
_TOPIC: Column = ("topic", "string", "topic name")
_PARTITION: Column = ("partition", "int32", "partition number")
_LOG_PARTITION: Column = ("log_partition", "int32", "partition of __consumer_offsets")
_INSTANCE: Column = ("instance", "string?", "group.instance.id of the member")


def _one_of(values: tuple[str, ...]) -> str:
    return f"{', '.join(values[:-1])}, or {values[-1]}"


#: Columns of each table; a type that ends in "?" is nullable.
COLUMNS: dict[str, tuple[Column, ...]] = {
    "groups": (
        _RUN,
        _GROUP,
        ("kind", "string", f"classic, consumer, share, streams, a '+' of these, or {OFFSETS_ONLY}"),
        ("status", "string", _one_of((REPLAYED, NOT_REPLAYED, OFFSETS_ONLY, FAILED))),
        ("why", "string?", "reason for a group that was not replayed, or the error"),
        ("traceback", "string?", "Python traceback of the error, for a failed group"),
        ("log_partition", "int32", "partition of __consumer_offsets that stores the group"),
        ("records", "int64", "records of the group without offset commits"),
        ("commits", "int64", "offset commits that took effect"),
        ("rebalances", "int32", "rows in table rebalances"),
        ("incarnations", "int32", "incarnations of the group, separated by tombstones"),
        ("missing_generations", "int64", "known generations that are not in the log"),
        ("first_ms", "int64?", "time of its first record in the log, commits aside"),
        ("last_ms", "int64?", "time of its last record in the log, commits aside"),
        ("claimed", "list<string>", "strategies that the group chose, in order of appearance"),
        ("clients", "list<string>", "client libraries of its members, inferred from the bytes"),
        (
            "coverage",
            "double?",
            "recorded generations by known ones; null if none is known",
        ),
        ("members_max", "int32?", "members of its largest generation"),
        ("partitions_max", "int32?", "partitions of its largest assignment"),
    ),
    "events": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        _LOG_PARTITION,
        ("log_offset", "int64", "offset of the record that shows the event"),
        ("position", "int32", "order among the events of one record, from 0"),
        ("time_ms", "int64", "time of the event, by the timestamp of a record that shows it"),
        (
            "event",
            "string",
            "created, rebalance, taken over, rewritten, emptied, deleted, migrated, gap, join, "
            "leave, expiry, poll, bounce, restart, away, resubscription, strategy, topics, "
            "follow-up, leader, or coordinator",
        ),
        ("member", "string?", "member id, for an event of one member"),
        _INSTANCE,
        ("source", "string", "recorded: stated by a record; inferred: from two records"),
        ("detail", "string?", "a few words, e.g. the strategy before and after"),
    ),
    "rebalances": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        _LOG_PARTITION,
        ("log_offset", "int64", "offset of the generation's first record"),
        ("time_ms", "int64", "timestamp of that record"),
        ("state_time_ms", "int64?", "its currentStateTimestamp; null before value version 2"),
        ("cluster_ms", "int64?", "ts_ms of the cluster metadata used in the simulation"),
        ("protocol_type", "string?", "consumer, connect, ...; empty before the first join"),
        ("strategy", "string?", "strategy that the group chose; null for an empty group"),
        ("leader", "string?", "member id of the leader; null if the coordinator decided"),
        ("leader_client", "string?", "client library of the leader, inferred from its bytes"),
        ("members", "int32", "members of the generation"),
        ("partitions", "int32", "partitions in the recorded assignment, each copy counted"),
        ("records", "int32", "records of this generation; further ones are no new rebalance"),
        ("gap_before", "int64", "generations missing from the log right before this one"),
        ("cause", "string", "difference from the previous generation, in words"),
        (
            "follow_up",
            "bool",
            "no difference: second cooperative step, or requested",
        ),
        ("joined", "int32", "members that were not in the previous generation"),
        ("left", "int32", "members of the previous generation that are not in this one"),
        ("restarted", "int32", "static members that rejoined with a new member id"),
        ("resubscribed", "int32", "members whose subscribed topics changed"),
        ("clients", "list<string>", "client libraries of the members, inferred from the bytes"),
        ("replayed", "bool", "whether policies were simulated on it"),
        ("why_not", "string?", "reason why not"),
        ("protocol", "string", "classic, consumer, share or streams"),
        ("cause_kind", "string", f"cause with the highest precedence: {_one_of(CAUSE_KINDS)}"),
        ("cause_source", "string", "recorded: stated by a record; inferred: from differences"),
        ("cause_probability", "double", "of cause_kind; below 1 where another kind fits as well"),
        ("cause_other", "string?", "that other kind; null if the log allows one kind only"),
        ("storm", "int32?", "number of the rebalance storm that it belongs to"),
        ("stopped_low_ms", "int64?", "duration by the members' commits around it, lower bound"),
        ("stopped_high_ms", "int64?", "duration by the members' commits around it, upper bound"),
        (
            "agrees",
            "bool?",
            "whether the recorded assignment is the claimed strategy's; null: not judged",
        ),
        ("judged_by", "string?", "strategy or client dialect that it was compared with"),
        (
            "disagreement",
            "string?",
            "reason for the difference, or unexplained; with agrees null: the strategy does not"
            " terminate on the recorded input",
        ),
        ("assumed", "string?", "assumptions of the comparison that the log does not record"),
    ),
    "members": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("position", "int32", "order in the record"),
        ("member", "string", "member id"),
        _INSTANCE,
        ("client_id", "string", "client.id"),
        ("client_host", "string", "network address of the client"),
        ("client", "string", "library: java, librdkafka, kafka-python or aiokafka, unknown"),
        ("certainty", "string", "certain, likely or unknown: certainty of the library"),
        ("leader", "bool", "whether it led this generation"),
        ("rack", "string?", "client.rack as sent; null and empty differ"),
        ("session_timeout_ms", "int32", "session.timeout.ms; -1: none sent, the broker's counts"),
        ("rebalance_timeout_ms", "int32", "time limit for rejoining (max.poll.interval.ms)"),
        ("subscription", "string?", "content hash of its topics, for comparisons"),
        ("topics", "list<string>", "subscribed topics in the order sent"),
        (
            "pattern",
            "string?",
            "regular expression of the subscription that the broker matches (consumer protocol)",
        ),
        ("subscription_version", "int32?", "version of its subscription; null if not readable"),
        ("user_data", "binary?", "user data of the subscription; null and empty differ"),
        ("claims", "list<topic_partitions>", "owned partitions as sent; of a target, the previous"),
        ("claims_generation", "int32", "generation of the claims, -1 if none was sent"),
        ("assignment_version", "int32?", "version of its assignment; null if not readable"),
        ("assignment", "list<topic_partitions>", "assigned partitions, in the order stored"),
    ),
    "ownership": (
        _RUN,
        _GROUP,
        _INCARNATION,
        ("topic_id", "string?", "topic id at the time; null if the cluster had no such topic"),
        _TOPIC,
        _PARTITION,
        (
            "member",
            "string",
            "member id; a static member that restarts has a row for each of its ids",
        ),
        _INSTANCE,
        ("role", "string", "owner, releasing, active, standby, or warmup"),
        ("from_ms", "int64", "time of the record that assigned it"),
        ("to_ms", "int64?", "time of the record that revoked it; null while it lasts"),
        ("from_generation", "int32", "generation that assigned it"),
        ("to_generation", "int32?", "generation that revoked it; null while it lasts"),
    ),
    "commit_rates": (
        _RUN,
        _GROUP,
        _TOPIC,
        _PARTITION,
        ("minute_ms", "int64", "beginning of the minute"),
        ("first_offset", "int64?", "first offset committed in it; null if only tombstones"),
        ("last_offset", "int64?", "last offset committed in it"),
        ("commits", "int64", "commits that took effect in it"),
        ("transactional", "int64", "of these, commits that took effect at a marker"),
        ("tombstones", "int64", "committed offset removed: topic or group deleted, or expired"),
        ("largest_gap_ms", "int64?", "longest time between two commits, the second in this minute"),
    ),
    "commits": (
        _RUN,
        _GROUP,
        _TOPIC,
        _PARTITION,
        _LOG_PARTITION,
        ("log_offset", "int64", "offset from which it is in effect: its own, or its marker's"),
        ("time_ms", "int64", "time from which it is in effect"),
        ("offset", "int64?", "the committed offset; null: the committed offset was removed"),
        ("leader_epoch", "int32?", "leader epoch of the last consumed record"),
        ("commit_ms", "int64?", "commit timestamp in the value"),
        ("topic_id", "string?", "topic id, if the commit has one"),
        ("transactional", "bool", "whether it took effect at a marker"),
    ),
    "pauses": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        _TOPIC,
        _PARTITION,
        ("last_ms", "int64?", "last commit before the rebalance's record"),
        ("first_ms", "int64?", "first commit after it"),
        ("pause_ms", "int64?", "time between these two"),
        ("rewind", "int64?", "records consumed again at least: how far offsets went back"),
        ("resolution_ms", "int64?", "usual time between two commits of the partition"),
        ("advance", "int64?", "how far offsets advanced; 0: no records, or none consumed"),
    ),
    "unread": (
        _RUN,
        _GROUP,
        _INCARNATION,
        ("generation", "int32", "generation or epoch that ended it"),
        _TOPIC,
        _PARTITION,
        ("member", "string", "member id of the last owner"),
        ("new_owner", "string", "member id of the next owner"),
        ("stopped_ms", "int64", "when the last owner stopped, best estimate"),
        ("stopped_p10_ms", "int64", "10th percentile of this estimate"),
        ("stopped_p90_ms", "int64", "90th percentile of this estimate"),
        ("assigned_ms", "int64", "when the next owner was assigned it, best estimate"),
        ("unread_ms", "int64", "time without a reader, without no_consumer_ms, best estimate"),
        ("unread_p10_ms", "int64", "10th percentile of this estimate"),
        ("unread_p90_ms", "int64", "90th percentile of this estimate"),
        ("no_consumer_ms", "int64", "time without any member or subscriber"),
        ("no_consumer_from_ms", "int64?", "start of the first such time; null without one"),
    ),
    "replays": (
        _RUN,
        _GROUP,
        _INCARNATION,
        _GENERATION,
        ("policy", "string", f"policy, see docs/policies.md; {RECORDED!r} is the log's own row"),
        ("strategy", "string", f"its strategy; {RECORDED!r} in the log's own row"),
        ("protocol", "string", "eager, cooperative or consumer"),
        ("reading", "string", f"kind of simulation: {_one_of(READINGS)}"),
        ("step", "int32", "0; 1, ... for follow-ups (second steps, later session timeouts)"),
        ("caused", "bool", "false: this rebalance does not happen under the policy"),
        ("time_ms", "int64", "time under the policy"),
        ("status", "string", _one_of(STATUSES)),
        ("claimed", "bool", "whether the group had chosen the strategy"),
        ("agrees", "bool?", "recorded assignment equals the plan; only if claimed and simulated"),
        ("counts", "bool", "agreement counts: all members are Java clients, the strategy is exact"),
        ("judged_by", "string?", "rule that was compared: the leader's dialect, or the strategy"),
        (
            "detail",
            "string?",
            "reason for refused, failed, a rebalance that does not happen, or a difference",
        ),
        ("partitions", "int32?", "partitions assigned"),
        ("members", "int32?", "members that took part"),
        *REPLAY_COLUMNS,
        ("plan", "string?", "the plan as JSON: member -> topic -> numbers"),
    ),
    "streams_settings": (
        _RUN,
        _GROUP,
        _INCARNATION,
        ("position", "int32", "order of the group's rows; 0: the log's own figures"),
        ("simulated", "bool", "false: the log's own figures, or none"),
        ("protocol", "string", "protocol of the group: classic or streams; empty without figures"),
        ("assignor", "string", f"task assignor; {RECORDED!r} in the log's own row"),
        ("settings", "string", "changed settings as name=value; empty: the present ones"),
        ("detail", "string?", "reason why there are no figures"),
        ("from_ms", "int64?", "beginning of the simulated time"),
        ("to_ms", "int64?", "end of the simulated time"),
        ("events", "int32?", "recorded starts and stops of clients in this time"),
        ("clients", "int32?", "clients that ran in this time"),
        ("tasks", "int32?", "tasks of the application"),
        ("standbys", "int32?", "num.standby.replicas"),
        ("rebalances", "double?", "rebalances in this time, a mean over shifted events"),
        ("moved", "double?", "how often a task began to run on another client than before"),
        ("outages", "double?", "times in which a task had no owner with all its state"),
        ("outage_s", "double?", "their length in seconds, summed over tasks"),
        ("mean_outage_s", "double?", "their mean length"),
        ("worst_outage_s", "double?", "length of the longest one"),
        ("restored", "int64?", "state that clients read again, in the unit"),
        ("disk", "int64?", "mean state in addition to that of active tasks, in the unit"),
        ("unit", "string?", "bytes or records; null: the sizes of changelogs are unknown"),
    ),
    "bad_records": (
        _RUN,
        ("partition", "int32?", "partition of __consumer_offsets"),
        ("offset", "int64?", "offset in it"),
        ("timestamp_ms", "int64?", "timestamp of the record"),
        ("part", "string", "key, value or row: the part that is damaged"),
        ("why", "string", "the defect, with field and byte"),
        ("group", "string?", "group id, if the key is readable"),
        ("key", "binary?", "bytes of the key"),
        ("value", "binary?", "bytes of the value"),
    ),
    "runs": (
        _RUN,
        ("capture", "string", "folder of the capture"),
        ("started_ms", "int64", "beginning of the run"),
        ("ended_ms", "int64", "time at which its tables were complete"),
        ("partage", "string", "version of Partage"),
        ("records", "int64", "records read"),
        ("decoded", "int64", "records decoded"),
        ("bad", "int64", "records that could not be decoded"),
        ("settings", "string", "JSON: strategies, Spark settings, versions"),
        ("coverage", "string", "JSON: share of the history that the log still has"),
    ),
}

#: Nullable columns that only the simulation of `partage replay` fills in, by table. They are null
#: in the tables of `partage watch`.
SIMULATED_COLUMNS: dict[str, tuple[str, ...]] = {
    "rebalances": ("agrees", "judged_by", "disagreement", "assumed"),
}

TABLES: tuple[str, ...] = tuple(COLUMNS)


def table_schema(table: str) -> pa.Schema:
    """Return the pyarrow schema (column names, types and nullability) of an output table.

    The tables are written by `partage replay`, for example ``rebalances`` or ``ownership``.

    Raises:
        KeyError: no table has this name.

    >>> table_schema("ownership").field("to_ms").nullable, table_schema("runs").names[0]
    (True, 'run_id')
    """
    import pyarrow as pa

    return pa.schema(
        pa.field(name, _type(kind.rstrip("?")), nullable=kind.endswith("?"))
        for name, kind, _ in COLUMNS[table]
    )


def describe_tables() -> str:
    r"""Return the reference of all output tables in Markdown: columns, types and meanings.

    It is the page ``docs/tables.md``. After a change of a column, write it anew:

    ``python -c "from partage.tables.schemas import *; print(describe_tables(), end='')"``

    >>> describe_tables().splitlines()[0]
    '# Tables of a run'
    """
    parts = ["# Tables of a run\n"]
    for table, columns in COLUMNS.items():
        rows = [f"| `{name}` | `{kind}` | {meaning} |" for name, kind, meaning in columns]
        head = [f"## {table}\n", "| column | type | meaning |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows, ""]))
    return "\n".join([
        *parts,
        "A type that ends in `?` is nullable. {doc}`metrics` defines the figures of `replays`.",
        "Delta and Iceberg tables have the column `date`, too: {doc}`storage`.\n",
    ])  # fmt: skip


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
