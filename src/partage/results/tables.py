"""Tables of a run with typed rows: sequences in Python, streams of Arrow data elsewhere.

A row is a frozen dataclass. The Arrow type of a column follows from the field's annotation: times
are timestamps in UTC, tuples are lists, ``None`` is null. Durations are partition-seconds unless
the name ends in ``_ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from partage.errors import InvalidConfigError
from partage.model.display import html_table, pretty_print

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "MOST_SHOWN",
    "AdviceResult",
    "EventResult",
    "GroupResult",
    "OwnershipResult",
    "PolicyResult",
    "RebalanceResult",
    "ResultRow",
    "StreamsSettingsResult",
    "TableView",
    "cell_text",
    "text_table",
]


class ResultRow:
    """Base class for a row of a replay's result tables, such as `RebalanceResult`.

    A replay simulates recorded rebalances under other settings. Each field of a subclass is a
    column.

    Attributes:
        SHOWN: columns that `TableView` prints; empty for all.
        COLUMNS: dict from field to column of the run's table, for fields with another name.
        CAUSES: field with the name of a cause, as page and terminal show it.
            The run's table has its kind instead, such as ``expiry``. Empty if there is none.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[Mapping[str, str]] = {}
    CAUSES: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class GroupResult(ResultRow):
    """One consumer group of a finished replay, with its downtime and its first recommendation.

    Downtime (columns ``unread...``) is the time in which partitions had no consumer, in
    partition-seconds.

    Attributes:
        protocol: classic, consumer, share or streams, or several with ``+``.
        status: replayed, not replayed, offsets only or failed.
        strategy: the strategy that it chose last.
        coverage: recorded rebalances divided by known ones.
        unread, unread_low, unread_high: estimated downtime with its 80 % interval.
        unread_share: the same as a share of the partition-time.
        main_cause: cause with most of the downtime, such as ``session timeout``.
        action: title of the first recommendation.
        why: reason for a group that was not replayed.
    """

    SHOWN = ("group", "protocol", "strategy", "rebalances", "unread", "unread_share", "main_cause",
             "action")  # fmt: skip
    CAUSES = "main_cause"

    group: str
    protocol: str
    status: str
    strategy: str | None
    clients: tuple[str, ...]
    rebalances: int
    rebalances_per_hour: float | None
    coverage: float | None
    members_max: int
    partitions_max: int | None
    unread: float | None
    unread_low: float | None
    unread_high: float | None
    unread_share: float | None
    main_cause: str | None
    action: str | None
    why: str | None


@dataclass(frozen=True, slots=True)
class RebalanceResult(ResultRow):
    """One recorded rebalance of a consumer group, with its cause, size and duration.

    The cause is stated by a record or inferred from the difference to the previous rebalance.

    Attributes:
        cause: the cause with the highest precedence, such as ``session timeout``.
        detail: difference from the previous generation, in words.
        storm: number of the rebalance storm (rebalances in quick succession) that it belongs to.
        stopped_low_ms, stopped_high_ms: bounds of its duration.
        agrees: whether the strategy that the members name gives the recorded assignment.
        replayed: whether policies were simulated on it.
    """

    SHOWN = ("group", "generation", "time", "strategy", "members", "partitions", "cause", "detail")
    COLUMNS = {"time": "time_ms", "cause": "cause_kind", "detail": "cause"}  # noqa: RUF012 - of `ResultRow`
    CAUSES = "cause"

    group: str
    incarnation: int
    generation: int
    time: datetime
    protocol: str
    strategy: str | None
    members: int
    partitions: int
    cause: str
    detail: str
    follow_up: bool
    joined: int
    left: int
    restarted: int
    resubscribed: int
    storm: int | None
    stopped_low_ms: int | None
    stopped_high_ms: int | None
    agrees: bool | None
    replayed: bool


@dataclass(frozen=True, slots=True)
class PolicyResult(ResultRow):
    """Metrics of one simulated policy (group configuration), for one group or summed over all.

    `partage.tables.metrics` defines the metrics.

    Attributes:
        policy: name of the policy, or ``recorded``.
        simulation: recorded, per_rebalance or cumulative.
        comparable: true if the policy has a valid plan for each rebalance.
        rebalances: number of rebalances under the policy.
        unread, unread_low, unread_high: best estimate of the downtime with its 80 % interval; None
            in simulations per rebalance.
        saves, saves_low, saves_high: downtime that it saves against the present settings, as a
            best estimate; the interval includes the error of the simulation. None if unknown.
        stopped_low, stopped_high: bounds of the downtime by commits alone.
        saved_low, saved_high: bounds of recorded downtime minus this one.
        incomplete: plans that violate a rule.
    """

    SHOWN = ("policy", "simulation", "comparable", "rebalances", "moved", "unread", "unread_low",
             "unread_high", "saves", "saves_low", "saves_high")  # fmt: skip

    policy: str
    simulation: str
    comparable: bool
    rebalances: int
    moved: int
    avoidable: int
    evenness: float | None
    unread: float | None
    unread_low: float | None
    unread_high: float | None
    saves: float | None
    saves_low: float | None
    saves_high: float | None
    stopped_low: float | None
    stopped_high: float | None
    saved_low: float | None
    saved_high: float | None
    reread_low: int | None
    reread_high: int | None
    unread_at_once: int | None
    incomplete: int


@dataclass(frozen=True, slots=True)
class AdviceResult(ResultRow):
    """One recommended change to a consumer group: settings, expected gain, evidence and risk.

    Attributes:
        rank: 1 for the group's first recommendation.
        gain: expected gain in words.
        saves, saves_low, saves_high: simulated gain with its interval; None if not simulated.
        confidence: medium or low; None if nothing is to be changed.
        why: evidence in the log.
        where: where to change the settings, such as a file or a broker.
        lines: lines of a configuration.
        policy: the policy whose simulation it rests on.
        verify: how to measure the effect.
        rule: name of the rule.
    """

    SHOWN = ("group", "rank", "title", "gain", "confidence")

    group: str
    rank: int
    title: str
    gain: str
    saves: float | None
    saves_low: float | None
    saves_high: float | None
    confidence: str | None
    why: str
    where: str
    lines: tuple[str, ...]
    policy: str | None
    risk: str
    rollout: str
    verify: str
    rule: str


@dataclass(frozen=True, slots=True)
class EventResult(ResultRow):
    """One event in the history of a consumer group, such as a rebalance or the join of a member.

    The events of a group, in log order, are its timeline.

    Attributes:
        event: kind of event; for the cause of a rebalance its name in `RebalanceResult`.
        source: recorded (stated by a record) or inferred (from two records).
        log_partition, log_offset: place of the record that shows the event.
    """

    SHOWN = ("time", "generation", "event", "member", "source", "detail")
    COLUMNS = {"time": "time_ms"}  # noqa: RUF012 - of `ResultRow`
    CAUSES = "event"

    time: datetime
    incarnation: int
    generation: int
    event: str
    member: str | None
    instance: str | None
    source: str
    detail: str | None
    log_partition: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class OwnershipResult(ResultRow):
    """An interval of time in which a member of a consumer group owned a partition.

    Static members have an instance id, which survives restarts.

    Attributes:
        role: owner, releasing, active, standby or warmup.
        until: None while it lasts.
    """

    COLUMNS = {"since": "from_ms", "until": "to_ms"}  # noqa: RUF012 - of `ResultRow`

    topic: str
    partition: int
    member: str
    instance: str | None
    role: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class StreamsSettingsResult(ResultRow):
    """Outages and costs of a Kafka Streams application under one combination of settings.

    The recorded starts and stops of its clients are simulated with these settings. The first row of
    each group has the recorded values instead.

    Attributes:
        position: order of the group's rows; 0 has the recorded values.
        settings: changed settings; empty for the present ones.
        detail: why there are no values.
        events: recorded starts and stops of clients in the simulated time.
        outages: times in which a task had no owner with all its state.
        outage_s, mean_outage_s, worst_outage_s: their total, mean and longest length in seconds.
        restored: state that clients read again, in the unit.
        disk: mean state in addition to that of active tasks, in the unit.
        unit: bytes or records; None if the sizes of changelogs are unknown.
    """

    SHOWN = ("group", "protocol", "settings", "worst_outage_s", "mean_outage_s", "outage_s",
             "rebalances", "moved", "restored", "disk")  # fmt: skip

    group: str
    position: int
    simulated: bool
    protocol: str
    assignor: str
    settings: str
    detail: str | None
    events: int | None
    clients: int | None
    tasks: int | None
    standbys: int | None
    rebalances: float | None
    moved: float | None
    outages: float | None
    outage_s: float | None
    mean_outage_s: float | None
    worst_outage_s: float | None
    restored: int | None
    disk: int | None
    unit: str | None


R = TypeVar("R", bound=ResultRow)
MOST_SHOWN = 10
_WIDEST = 28


class TableView(Sequence[R], Generic[R]):
    """A table of a finished replay, which behaves like a sequence of typed rows.

    Libraries that read Arrow data (PyCapsule interface) accept it, as in ``pyarrow.table(view)``.

    Args:
        table: the table, with one column for each field of the row type.
        row: the row type.

    >>> one = OwnershipResult("orders", 0, "c1", None, "owner", datetime(2026, 11, 20), None)
    >>> view = TableView.of(OwnershipResult, [one])
    >>> len(view), view[0].member, view.to_arrow().schema.field("since").type
    (1, 'c1', TimestampType(timestamp[ms, tz=UTC]))
    """

    def __init__(self, table: pa.Table, row: type[R]) -> None:
        names = [field.name for field in fields(row)]  # type: ignore[arg-type]  # rows are dataclasses
        self._table, self._row = table.select(names).cast(_schema_of(row)), row

    @classmethod
    def of(cls, row: type[R], rows: Iterable[R]) -> TableView[R]:
        """Create a table from rows, which are instances of one dataclass; its fields become the
        columns.

        ``row`` is the dataclass, ``rows`` are the instances.
        """
        import pyarrow as pa

        found = list(rows)
        columns = [
            pa.array([getattr(one, field.name) for one in found], field.type)
            for field in _schema_of(row)
        ]
        return cls(pa.Table.from_arrays(columns, schema=_schema_of(row)), row)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns, in the order of the row type's fields."""
        return tuple(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, at: int) -> R: ...
    @overload
    def __getitem__(self, at: slice) -> TableView[R]: ...
    def __getitem__(self, at: int | slice) -> R | TableView[R]:
        if isinstance(at, slice):
            return TableView(self._table.take(list(range(len(self))[at])), self._row)
        number = range(len(self))[at]
        return next(iter(TableView(self._table.slice(number, 1), self._row)))

    def __iter__(self) -> Iterator[R]:
        for batch in self._table.to_batches():
            for cells in batch.to_pylist():
                yield self._row(**{n: tuple(c) if isinstance(c, list) else c
                                   for n, c in cells.items()})  # fmt: skip

    def where(self, **values: Any) -> TableView[R]:
        """Return a table with only the rows that have the given column values.

        For example, ``where(cause="join")`` selects the rebalances that a joining member caused. A
        cause may also be given by its kind in the published tables (``expiry``).

        Raises:
            InvalidConfigError: there is no such column, or a value has another type.
        """
        import pyarrow as pa
        from pyarrow import compute as pc

        from partage.report.messages import cause_label

        table = self._table
        if isinstance(cause := values.get(self._row.CAUSES), str):
            values[self._row.CAUSES] = cause_label(cause)
        for name, value in values.items():
            if name not in table.column_names:
                raise InvalidConfigError(name, f"must be one of {', '.join(self.columns)}", value)
            try:
                wanted = pa.scalar(value, table.schema.field(name).type)
            except (pa.ArrowException, TypeError) as e:
                kind = table.schema.field(name).type
                raise InvalidConfigError(name, f"must be {kind}", value) from e
            cells = table[name]
            table = table.filter(pc.is_null(cells) if value is None else pc.equal(cells, wanted))
        return TableView(table, self._row)

    def to_arrow(self) -> pa.Table:
        """Return the table as a pyarrow table."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a pandas data frame; pandas must be installed."""
        found: pd.DataFrame = self._table.to_pandas()
        return found

    def to_polars(self) -> Any:
        """Return the table as a polars data frame; polars must be installed."""
        return import_module("polars").DataFrame(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an ``ArrowArrayStream`` capsule (Arrow PyCapsule interface).

        Libraries that read Arrow data call it; ``requested_schema`` is the schema that they prefer.
        """
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        shown = self._row.SHOWN or self.columns
        first = self._table.slice(0, MOST_SHOWN)
        rows = [[cells[name] for name in shown] for cells in first.to_pylist()]
        more = len(self) - len(rows)
        count = f"{len(self):,} row{'' if len(self) == 1 else 's'} of {self._row.__name__}"
        hidden = len(self.columns) - len(shown)
        note = f", {hidden} more columns" if hidden else ""
        rest = [f"... {more:,} more rows"] if more else []
        return "\n".join([f"{count}{note}", *text_table(shown, rows), *rest])

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        """Return the first rows of the table as HTML, which Jupyter displays."""
        shown = self._row.SHOWN or self.columns
        first = self._table.slice(0, MOST_SHOWN).to_pylist()
        rows = [[cell_text(cells[name]) for name in shown] for cells in first]
        more = len(self) - len(rows)
        count = f"{len(self):,} row{'' if len(self) == 1 else 's'} of {self._row.__name__}"
        return html_table(count, shown, rows, [f"and {more:,} more rows"] if more else [])


def _schema_of(row: type[ResultRow]) -> pa.Schema:
    """Return the Arrow schema of a table whose rows are a dataclass.

    The types follow from the annotations of its fields: for example, ``str | None`` becomes a
    nullable string column.
    """
    import pyarrow as pa

    kinds = {
        "str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(),
        "datetime": pa.timestamp("ms", "UTC"), "tuple[str, ...]": pa.list_(pa.string()),
    }  # fmt: skip
    found = []
    for field in fields(row):  # type: ignore[arg-type]  # rows are dataclasses
        kind, _, none = str(field.type).partition(" | ")
        found.append(pa.field(field.name, kinds[kind], nullable=bool(none)))
    return pa.schema(found)


def text_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Format a table as lines of text with aligned columns; long cells are cut.

    ``names`` are the column headings, ``rows`` the cell values.

    >>> text_table(["group", "moved"], [["billing", 12], ["mailer", None]])
    ['group    moved', 'billing     12', 'mailer']
    """
    found = list(rows)
    cells = [[cell_text(value) for value in row] for row in found]
    numbers = [
        all(isinstance(v, int | float | None) for v in column)
        for column in zip(*found, strict=True)
    ]
    right = [*numbers, *[False] * (len(names) - len(numbers))]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in ([*names], *cells)
    ]


def cell_text(value: Any) -> str:
    """Format a table cell as short text for display.

    Numbers are rounded, times are shown in UTC, and long text is cut. None becomes an empty text.
    """
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    text = ", ".join(value) if isinstance(value, list) else str(value)
    text = "".join(c if c.isprintable() else " " for c in text.replace("\N{NO-BREAK SPACE}", " "))
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
