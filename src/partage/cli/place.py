"""`partage place`: where Kafka would put the replicas of a topic."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import print_message, print_tables, styled_name, write_json
from partage.cli.options import (
    AsJson,
    ClusterOptions,
    partitions_option,
    read_replica_cluster,
    replication_option,
    strategy_option,
    topic_option,
    with_options,
)
from partage.errors import InvalidConfigError, InvalidPlacementError

if TYPE_CHECKING:
    from partage.model import Broker

__all__ = ["place"]

#: Up to this many partitions, the option of kafka-topics is printed as one line.
_MOST_TYPED = 50


#: Partitions in one request to a KRaft controller of 4.3.1: ``MAX_PARTITIONS_PER_BATCH`` of
#: ``ReplicationControlManager`` for CreateTopics, ``MAX_RECORDS_PER_USER_OP`` of
#: ``QuorumController`` for CreatePartitions.
_MOST_IN_A_REQUEST = 10_000
#: Partitions that the command prints, a line each: a topic that grows by 20 requests.
_MOST_PARTITIONS = 20 * _MOST_IN_A_REQUEST


@with_options
def place(
    brokers: Annotated[
        str | None,
        typer.Argument(
            metavar="BROKERS", show_default=False,
            help="1:a,2:b,3 (id:rack), a capture's folder, a cluster's JSON, or host:port.",
        ),
    ] = None,
    *,
    topic: Annotated[str, topic_option("New; with --add an existing one.")] = "topic",
    partitions: Annotated[int, partitions_option()] = 1,
    factor: Annotated[
        int | None, replication_option("Without it 1; with --add as the topic has.")
    ] = None,
    add: Annotated[
        bool,
        typer.Option("--add", help="Number of partitions to add to an existing topic."),
    ] = False,
    strategy: Annotated[
        str, strategy_option("striped (KRaft, the default), rack-aware or rack-unaware (3.9).")
    ] = "striped",
    start_index: Annotated[
        int | None,
        typer.Option("--start-index", metavar="N", show_default=False,
                     help="First broker's index in the placers of 3.9; without it from the seed."),
    ] = None,
    start_shift: Annotated[
        int | None,
        typer.Option("--start-shift", metavar="N", show_default=False,
                     help="First shift of followers in the placers of 3.9; without it from the "
                     "seed."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of Java's Random.")
    ] = 0,
    cluster: ClusterOptions,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print the brokers on which Kafka places the replicas of a new topic or new partitions.

        partage place 1:a,2:b,3:c --partitions 12 --replication-factor 3

        partage place capture --topic orders --add --partitions 4

        partage place -b broker:9092 --partitions 12 --replication-factor 3

    The last line is the `kafka-topics.sh --replica-assignment` command that creates the topic or
    adds the partitions. `--json` prints the input of kafka-reassign-partitions, which applies the
    placement to an existing topic.

    The seed of a real controller's random generator is unknown, so `striped` prints one of its
    possible placements. The strategies of 3.9 with a start index are exact.
    """
    from partage.replicas import place as placed
    from partage.replicas import place_added_partitions
    from partage.replicas.kafka_json import topic_assignment

    if partitions < 1:
        # The striped placer returns an empty placement for 0; the controller rejects the request.
        raise InvalidPlacementError(
            f"number of partitions {partitions} is not positive",
            java_exception="InvalidPartitionsException",
        )
    if partitions > _MOST_PARTITIONS:
        what = (
            f"can be at most {_MOST_PARTITIONS:,}: a KRaft controller creates at most "
            f"{_MOST_IN_A_REQUEST:,} in one request; place larger numbers from Python with "
            "partage.place"
        )
        raise InvalidConfigError("--partitions", what, partitions)
    listed, existing = _brokers(brokers, topic, cluster, add=add)
    chosen: Any = strategy
    if add:
        if factor not in {None, len(existing[0])}:
            what = f"--add uses the topic's own factor {len(existing[0])}: leave the option out"
            raise InvalidConfigError("--replication-factor", what, factor)
        rows = place_added_partitions(listed, existing, partitions, strategy=chosen, seed=seed)
    else:
        rows = placed(
            listed, partitions=partitions, strategy=chosen,
            replication_factor=1 if factor is None else factor,
            start_index=start_index, start_shift=start_shift, seed=seed,
        )  # fmt: skip
    first = len(existing)
    if as_json:
        write_json(topic_assignment(topic, rows, first))
        return
    _show(rows.tolist(), {b.id: b.rack for b in listed}, topic, existing)


def _show(
    rows: list[list[int]], racks: dict[int, str | None], topic: str, existing: list[list[int]]
) -> None:
    first = len(existing)
    for i, row in enumerate(rows):
        where = ", ".join(f"{b} ({racks[b]})" if racks[b] is not None else str(b) for b in row)
        print_tables(styled_name(f"{topic}-{first + i}: {where}"))
    held = dict.fromkeys(racks, 0)
    for row in rows:
        for b in row:
            held[b] += 1
    print_message(f"replicas per broker: {min(held.values())} to {max(held.values())}")
    if first + len(rows) <= _MOST_TYPED:
        # Kafka's tool requires all partitions in the list, and skips the existing ones.
        by_hand = ",".join(":".join(map(str, row)) for row in [*existing, *rows])
        how = f"--alter --partitions {first + len(rows)}" if first else "--create"
        print_message(f"kafka-topics.sh --bootstrap-server HOST:9092 {how} "
                      f"--topic {shlex.quote(topic)} "
             f"--replica-assignment {by_hand}")  # fmt: skip


def _brokers(
    given: str | None, topic: str, cluster: ClusterOptions, *, add: bool
) -> tuple[list[Broker], list[list[int]]]:
    from partage.model import Broker

    if given is None and cluster.bootstrap_server is None:
        raise typer.BadParameter("give BROKERS or --bootstrap-server")
    words = [] if given is None else given.split(",")
    listed = words and all(word.partition(":")[0].isdecimal() for word in words)
    if listed and cluster.bootstrap_server is None and not Path(str(given)).exists():
        if add:
            raise InvalidConfigError("--add", "needs a cluster that has the topic", given)
        pairs = [word.partition(":") for word in words]
        return [Broker(int(number), rack or None) for number, _, rack in pairs], []
    found = read_replica_cluster(given, cluster)
    if not add:
        if topic in found.topics:
            what = "the topic exists: use --add to add partitions to it"
            raise InvalidConfigError("--topic", what, topic)
        return list(found.brokers), []
    if topic not in found.topics:
        raise InvalidConfigError("--topic", "no such topic", topic)
    at = found.topics.index(topic)
    rows = {
        int(found.number[p]): found.broker_ids(
            found.replica[int(found.start[p]) : int(found.start[p + 1])]
        )
        for p in range(found.partitions)
        if found.topic[p] == at
    }
    return list(found.brokers), [rows[number] for number in sorted(rows)]
