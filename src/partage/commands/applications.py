"""Functions over Kafka Streams: `simulate_streams`, `decide_streams` and `describe_streams`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from partage.errors import InvalidConfigError
from partage.model.arguments import check_argument_types
from partage.model.validation import expect_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partage.simulation.streams import (
        LeaderDecision,
        SimulatedApplication,
        StandbyGain,
        StreamsMetrics,
        SweepCell,
    )

__all__ = [
    "DecidedCell",
    "DescribedApplication",
    "SimulatedCell",
    "decide_streams",
    "describe_streams",
    "simulate_streams",
    "streams_application_ids",
]

_DEFAULT = ("streams:high-availability",)
#: First bytes of the keys of offset commits.
_COMMIT_KEYS = (b"\x00\x00", b"\x00\x01")


class SimulatedCell(NamedTuple):
    """Result of simulating a Kafka Streams application with one assignor and one set of settings.

    `simulate_streams` returns one such object for each combination of assignor and settings.

    Attributes:
        cell: name of the assignor, and the settings that differ from the application's.
        metrics: unavailable time, restored bytes, rebalances and moves.
        timeline: rebalances and intervals of each task, if requested.
    """

    cell: SweepCell
    metrics: StreamsMetrics
    timeline: dict[str, Any]


class DecidedCell(NamedTuple):
    """Assignment of Kafka Streams tasks by one task assignor with one set of settings.

    `decide_streams` returns one such object for each combination of assignor and settings.

    Attributes:
        cell: name of the assignor, and the settings that differ from the application's.
        decision: the leader's assignment: active, standby and warm-up tasks by client, and whether
            another rebalance follows.
    """

    cell: SweepCell
    decision: LeaderDecision


class DescribedApplication(NamedTuple):
    """Description of a Kafka Streams application, made from a capture of its cluster.

    `describe_streams` returns it, and `simulate_streams` takes its ``description`` as input.

    Attributes:
        description: the input of `simulate_streams`, as a JSON object.
        assignor: name of the task assignor that the application's protocol uses by default.
        gain: gain and cost of one standby; None if the capture has no state sizes.
        source_lag: records of source topics that the application has not read; None if unknown.
        notes: sentences about what the capture lacks or what was assumed.
    """

    description: dict[str, Any]
    assignor: str
    gain: StandbyGain | None
    source_lag: int | None
    notes: tuple[str, ...]

    def write(self, path: str | Path) -> Path:
        """Write the description of the Kafka Streams application to a JSON file.

        The result is the path of the file.

        Raises:
            InvalidConfigError: the file cannot be written.
        """
        expect_local(path, "path")
        target = Path(path)
        try:
            target.write_text(json.dumps(self.description, indent=1) + "\n", encoding="utf-8")
        except OSError as e:
            what = f"cannot be written ({e.strerror or e})"
            raise InvalidConfigError("path", what, str(target)) from None
        return target


@check_argument_types
def describe_streams(source: str | Path, application_id: str) -> DescribedApplication:
    """Describe a Kafka Streams application from a capture, as input of `simulate_streams`.

    The description has sub-topologies, partitions, clients, state sizes and lags. Its only event is
    a crash of the client with most state. The result also estimates what one more standby replica
    would gain and cost.

    Args:
        source: the folder of a capture with ``cluster.jsonl``. State sizes are in bytes if it has
            the changelogs in ``topics.parquet``, else in records, if clients reported offsets.
        application_id: ``application.id``, which is the group's name.

    Raises:
        InvalidCaptureError: the capture cannot be read, or lacks the cluster's metadata.
        InvalidConfigError: it has no Streams group with this id.
        UnsupportedProblemError: a file cannot describe the application.
    """
    from partage.jobs.streams_capture import read_streams_application
    from partage.simulation.streams import read_application, standby_gain
    from partage.streams.recorded_application import describe_application

    found = read_streams_application(source, application_id)
    description = describe_application(found)
    gain = None
    if found.sizes:
        gain = standby_gain(read_application(description), found.default_assignor)
    return DescribedApplication(
        description, found.default_assignor, gain, found.source_lag, found.notes
    )


@check_argument_types
def streams_application_ids(source: str | Path) -> tuple[str, ...]:
    """Return the ids (``application.id``) of the Kafka Streams applications in a capture, sorted.

    An application's id is also the name of its consumer group. ``source`` is the folder of the
    capture.

    Raises:
        InvalidCaptureError: the capture cannot be read.
    """
    from partage.errors import WireFormatError
    from partage.history.streams_application import STREAMS_PROTOCOL
    from partage.jobs.replay.capture import open_records, read_slice
    from partage.wire.group_log import decode_record

    found = set()
    for piece in open_records(Path(source)):
        for table in read_slice(piece):
            columns = (table[name].to_pylist() for name in ("key", "value"))
            for key, value in zip(*columns, strict=True):
                if key is None or value is None or key[:2] in _COMMIT_KEYS:
                    continue
                try:
                    one = decode_record(key, value)
                except WireFormatError:
                    continue
                if one.type == "STREAMS_GROUP_METADATA":
                    found.add(str(one.key["groupId"]))
                elif (one.value or {}).get("protocol") == STREAMS_PROTOCOL:
                    found.add(str(one.key["group"]))
    return tuple(sorted(found))


@check_argument_types
def simulate_streams(
    application: SimulatedApplication | Mapping[str, Any] | str | Path,
    *,
    assignors: Sequence[str] | str = _DEFAULT,
    sweeps: Mapping[str, Sequence[object]] | None = None,
    timelines: bool = False,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[SimulatedCell]:
    """Simulate how a Kafka Streams application runs with different task assignors and settings.

    Each assignor is combined with each value of the settings in ``sweeps``. The result has, for
    example, how long tasks were unavailable and how many bytes were restored.

    Args:
        application: the application, or its description: a mapping, JSON text, or a file's path.
        assignors: names of task assignors.
        sweeps: settings by Kafka's names, each with the values to simulate.
        timelines: whether to return the rebalances and intervals of each simulation.
        spark: your session, which then simulates the combinations in parallel.
        master: Spark's master for a session that is started here; None simulates in this process.
        progress: called with (stage, done, total).

    Returns:
        One simulation for each combination; the last setting varies fastest.

    Raises:
        InvalidProblemError, InvalidTopologyError: the description is malformed.
        InvalidConfigError: a setting is invalid.
        UnknownStrategyError: no assignor has this name.

    >>> app = {"seconds": 60, "subtopologies": [{"sources": {"in": 2}}],
    ...        "clients": {"a": {}, "b": {}}}
    >>> cells = simulate_streams(app, sweeps={"num.standby.replicas": [0, 1]})
    >>> [(dict(one.cell.config), one.metrics.rebalances) for one in cells]
    [({'num.standby.replicas': '0'}, 0), ({'num.standby.replicas': '1'}, 0)]
    """
    from partage.simulation.streams import SimulatedApplication, read_application, simulate_cell

    found = application
    if not isinstance(found, SimulatedApplication):
        found = read_application(_description(application))
    combinations = _cells(assignors, sweeps)
    if spark is not None or master is not None:
        from partage.jobs.sweep import simulate_combinations

        results = simulate_combinations(
            found, combinations, keep=timelines, spark=spark, master=master, progress=progress
        )
        return [SimulatedCell(c, *both) for c, both in zip(combinations, results, strict=True)]
    rows: list[SimulatedCell] = []
    for cell in combinations:
        if progress is not None:
            progress("play", len(rows), len(combinations))
        result, metrics = simulate_cell(found, cell)
        # Ten thousand timelines are kept only if they are wanted.
        rows.append(SimulatedCell(cell, metrics, result.to_dict() if timelines else {}))
    if progress is not None:
        progress("play", len(rows), len(combinations))
    return rows


@check_argument_types
def decide_streams(
    state: Mapping[str, Any] | str | Path,
    *,
    assignors: Sequence[str] | str = _DEFAULT,
    sweeps: Mapping[str, Sequence[object]] | None = None,
) -> list[DecidedCell]:
    """Compute which tasks each Kafka Streams task assignor gives to which client (instance).

    The assignment is that of one rebalance, from the tasks and lags that the clients report;
    nothing is simulated over time. Each assignor is combined with each value of the settings in
    ``sweeps``.

    Args:
        state: the application with each client's ``active``, ``standby`` and ``lags``: a mapping,
            JSON text, or a file's path.
        assignors: names of task assignors.
        sweeps: settings by Kafka's names, each with its values.

    Raises:
        InvalidProblemError: the state is malformed.
        InvalidConfigError: a setting is invalid, or an assignor decides without lags.
        UnknownStrategyError: no assignor has this name.
    """
    from partage.simulation.streams import GivenClientStates, decide, read_client_states
    from partage.simulation.streams.sweep import apply_cell
    from partage.streams.kip1071_sticky import ServerSticky

    given = read_client_states(_description(state))
    found: list[DecidedCell] = []
    for cell in _cells(assignors, sweeps):
        application, assignor = apply_cell(given.application, cell)
        if isinstance(assignor, ServerSticky):
            what = "assigns without lags (KIP-1071): there is no decision from lags"
            raise InvalidConfigError("assignors", what, assignor.name)
        states = GivenClientStates(application, given.active, given.standby, given.lags)
        found.append(DecidedCell(cell, decide(states, assignor)))
    return found


def _description(given: object) -> object:
    if isinstance(given, Mapping | str | Path):
        return given
    what = "must be an application, a mapping, JSON text or the path of a file"
    raise InvalidConfigError("application", what, type(given).__name__)


def _cells(
    assignors: Sequence[str] | str, sweeps: Mapping[str, Sequence[object]] | None
) -> list[SweepCell]:
    from partage.simulation.streams import sweep_cells

    names = [assignors] if isinstance(assignors, str) else list(assignors)
    for key, values in (sweeps or {}).items():
        if isinstance(values, str) or not values:
            raise InvalidConfigError("sweeps", f"must have a list of values for {key}", values)
    listed = {key: [_setting_text(one) for one in values] for key, values in (sweeps or {}).items()}
    return sweep_cells(names, listed)


def _setting_text(value: object) -> str:
    """Format a Python value as in a Kafka properties file, such as ``true`` for True.

    Kafka Streams settings may be given as Python values.

    >>> _setting_text(True), _setting_text(2)
    ('true', '2')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
