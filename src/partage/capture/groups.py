"""The current groups of a running cluster: members, ownership, offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from partage.capture.connection import ClusterConnection, error_name, error_reason
from partage.errors import NotAuthorizedError, WireFormatError
from partage.wire.consumer_protocol import (
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
)

__all__ = [
    "LiveGroup", "LiveMember", "end_offsets", "expect_visible_groups", "listed_group_ids",
    "live_groups", "refused_group_ids",
]  # fmt: skip

Partition = tuple[str, int]
_GROUP_NOT_AUTHORIZED = 30


@dataclass(frozen=True)
class LiveMember:
    """Member of a group in a running Kafka cluster, as the group's coordinator describes it.

    It has the topics that the member subscribes to and the partitions that it owns.

    Attributes:
        id, client_id, host: as the coordinator reports them.
        instance_id, rack: None if the member has none.
        topics: the topics of its subscription.
        owned: (topic, partition) pairs, in the order of its assignment.
        generation: the generation of that assignment; -1 if the coordinator does not report it.
        user_data: user data of its subscription; None if it has none.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None
    rack: str | None
    topics: tuple[str, ...]
    owned: tuple[Partition, ...]
    generation: int = -1
    user_data: bytes | None = None


@dataclass(frozen=True)
class LiveGroup:
    """Group in a running Kafka cluster, with its members and committed offsets.

    The command ``partage groups`` shows it together with its lag.

    Attributes:
        type: ``classic``, ``consumer`` (KIP-848), ``streams`` (KIP-1071) or ``share`` (KIP-932).
            Members of a streams group own the partitions that their active tasks read. Members
            of a share group share partitions and have no committed offsets.
        state: Kafka's name of the group's state.
        strategy: name of its assignor; "" if it has none.
        coordinator: id of the coordinating broker.
        committed: dict from (topic, partition) to committed offset.
        trouble: a message about missing data; "" if nothing is missing.
    """

    id: str
    type: str
    state: str
    strategy: str
    coordinator: int
    members: tuple[LiveMember, ...] = ()
    committed: Mapping[Partition, int] = field(default_factory=dict)
    trouble: str = ""


def live_groups(
    connection: ClusterConnection, patterns: Iterable[str] | None = None
) -> tuple[list[LiveGroup], dict[Partition, int], Any]:
    """Read the groups of a running Kafka cluster, with their members and offsets.

    Groups of all types are read: classic, consumer, streams and share groups.

    Returns:
        The groups, the end offset of each of their partitions, and the cluster's metadata.

    Args:
        connection: open connection to the cluster.
        patterns: shell patterns of group ids; None for all groups.

    Raises:
        NotAuthorizedError: the account may not see any group.
        kafka.errors.KafkaError: a broker does not answer.
    """
    metadata = connection.fetch_metadata()
    listed = _listed(connection, [b.node_id for b in metadata.brokers], patterns)
    counts = {one.name: len(one.partitions) for one in metadata.topics}
    groups = [
        one for (node, kind), ids in sorted(listed.items())
        for one in _described(connection, node, kind, sorted(ids), counts)
    ]  # fmt: skip
    groups = [_with_offsets(connection, one) for one in groups]
    parts = {p for g in groups for p in (*g.committed, *(o for m in g.members for o in m.owned))}
    ends = end_offsets(connection, metadata, parts)
    return sorted(groups, key=lambda g: g.id), ends, metadata


def expect_visible_groups(connection: ClusterConnection) -> None:
    """Check that the account may list the groups of the Kafka cluster.

    Without the permission a broker returns an empty list, which looks as if there were no groups.

    Raises:
        NotAuthorizedError: the account has no DESCRIBE on the cluster.
    """
    # Without DESCRIBE on the cluster, a broker returns only the groups that the account may
    # describe, and no error. An empty list would then not mean "no groups".
    if connection.may_describe_cluster() is False:
        what = "DESCRIBE on them or on the cluster; without it a broker lists none of them"
        raise NotAuthorizedError("groups", what)


def listed_group_ids(connection: ClusterConnection, nodes: Sequence[int]) -> list[str]:
    """Return the ids of all Kafka groups that the connection's account may see, sorted.

    ``nodes`` are the ids of the brokers to ask, because each lists the groups that it coordinates.

    Raises:
        NotAuthorizedError: the account may not list groups.
        kafka.errors.KafkaError: a broker does not answer.
    """
    return sorted({one for ids in _listed(connection, nodes, None).values() for one in ids})


def refused_group_ids(connection: ClusterConnection, node: int, ids: Sequence[str]) -> list[str]:
    """Return those Kafka groups in ``ids`` that the connection's account may not describe.

    For these groups the broker returns the error GROUP_AUTHORIZATION_FAILED.

    Args:
        connection: open connection to the cluster.
        node: id of the broker to ask.
        ids: the group ids to check.

    Raises:
        kafka.errors.KafkaError: the broker does not answer.
    """
    # Any broker can be asked, because permissions are checked before anything else.
    from kafka.protocol.admin import DescribeGroupsRequest

    request = DescribeGroupsRequest(groups=list(ids), include_authorized_operations=False)
    answers = connection.request_response(request, node).groups
    return [one.group_id for one in answers if one.error_code == _GROUP_NOT_AUTHORIZED]


def _listed(
    connection: ClusterConnection, nodes: Sequence[int], wanted: Iterable[str] | None
) -> dict[tuple[int, str], list[str]]:
    # Each broker lists the groups that it coordinates.
    from kafka.protocol.admin import ListGroupsRequest

    patterns = None if wanted is None else tuple(wanted)
    answers = connection.ask_each({node: ListGroupsRequest() for node in nodes})
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for node, response in answers.items():
        if isinstance(response, Exception):
            raise response
        if response.error_code in {_GROUP_NOT_AUTHORIZED, 31}:
            raise NotAuthorizedError("groups", "DESCRIBE on them, or on the cluster")
        for one in response.groups:
            kind = str(getattr(one, "group_type", None) or "classic").lower()
            fits = patterns is None or any(fnmatchcase(one.group_id, p) for p in patterns)
            consumes = kind in _BY_SERVER or one.protocol_type in {"consumer", ""}
            if fits and consumes and kind in {"classic", *_BY_SERVER}:
                found[node, kind].append(one.group_id)
    return found


def _described(
    connection: ClusterConnection, node: int, kind: str, ids: Sequence[str],
    counts: Mapping[str, int],
) -> list[LiveGroup]:  # fmt: skip
    if kind in _BY_SERVER:
        request = _describe_request(_BY_SERVER[kind])(
            group_ids=list(ids), include_authorized_operations=False
        )
        response = connection.request_response(request, node)
        if kind == "streams":
            return [_streams_group(one, node, counts) for one in response.groups]
        return [_server_group(one, kind, node) for one in response.groups]
    from kafka.protocol.admin import DescribeGroupsRequest

    response = connection.request_response(
        DescribeGroupsRequest(groups=list(ids), include_authorized_operations=False), node
    )
    return [_classic_group(one, node) for one in response.groups]


@cache
def _describe_request(api_name: str) -> Any:
    """Return kafka-python's class for a Kafka request that describes groups.

    An example of a request is "ConsumerGroupDescribe". kafka-python 3.0 lacks some classes, which
    are created from JSON schemas of this package.
    """
    # kafka-python 3.0 has no classes for consumer, share and streams groups (KIP-848, KIP-932,
    # KIP-1071). They are created from JSON schemas of this package.
    from kafka.protocol.api_message import ApiMessage

    place = "partage.capture.messages"
    # Their names are their files' names.
    made = [type(ApiMessage)(api_name + one, (ApiMessage,), {"__slots__": ()}, load_json=place)
            for one in ("Request", "Response")]  # fmt: skip
    _KEPT.extend(made)  # the registry holds weak references
    return made[0]


#: The protocol name of Faust's workers.
_FAUST = "faust"
#: Types of groups whose coordinator assigns, and the requests that describe them.
_BY_SERVER = {
    "consumer": "ConsumerGroupDescribe",
    "share": "ShareGroupDescribe",
    "streams": "StreamsGroupDescribe",
}
_KEPT: list[Any] = []


def _classic_group(description: Any, node: int) -> LiveGroup:
    if description.error_code:
        return LiveGroup(
            description.group_id,
            "classic",
            "",
            "",
            node,
            trouble=error_name(description.error_code),
        )
    trouble, members = "", []
    for m in description.members:
        # A member with malformed bytes is still a member, and owns what it was assigned.
        subscription = ConsumerSubscription(())
        owned: tuple[Partition, ...] = ()
        assigned = bytes(m.member_assignment or b"")
        try:
            owned = tuple(decode_assignment(assigned).partitions) if assigned else ()
            # While a group rebalances there is no protocol, and no subscription is known.
            if m.member_metadata:
                sent = bytes(m.member_metadata)
                if (
                    description.protocol_data == _FAUST
                ):  # it writes version 4 with the fields of version 0
                    subscription = decode_subscription(sent[2:], version=0)
                else:
                    subscription = decode_subscription(sent)
        except WireFormatError as e:
            trouble = f"member {m.member_id} sent what cannot be read ({e})"
        members.append(LiveMember(
            m.member_id, m.client_id, m.client_host, getattr(m, "group_instance_id", None) or None,
            subscription.rack, tuple(subscription.topics), tuple((t, int(p)) for t, p in owned),
            -1 if subscription.generation is None else subscription.generation,
            subscription.user_data,
        ))  # fmt: skip
    protocol = description.protocol_data or ""
    return LiveGroup(description.group_id, "classic", description.group_state, protocol, node,
                     tuple(members), trouble=trouble)  # fmt: skip


def _server_group(description: Any, kind: str, node: int) -> LiveGroup:
    if description.error_code:
        return LiveGroup(
            description.group_id, kind, "", "", node, trouble=error_name(description.error_code)
        )
    members = tuple(
        LiveMember(
            m.member_id, m.client_id, m.client_host, getattr(m, "instance_id", None), m.rack_id,
            tuple(m.subscribed_topic_names),
            tuple((t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions),
            m.member_epoch,
        ) for m in description.members
    )  # fmt: skip
    strategy = f"server:{description.assignor_name}"
    return LiveGroup(description.group_id, kind, description.group_state, strategy, node, members)


def _streams_group(description: Any, node: int, partition_counts: Mapping[str, int]) -> LiveGroup:
    """Convert a broker's description of a streams group (KIP-1071) to a `LiveGroup`.

    Its members own the partitions that their active tasks read.

    Args:
        description: the broker's response.
        node: id of the group's coordinator.
        partition_counts: number of partitions by topic.
    """
    # Members own the partitions that their active tasks read. Task `p` of a sub-topology reads
    # partition `p` of each source topic.
    if description.error_code:
        trouble = error_name(description.error_code)
        return LiveGroup(description.group_id, "streams", "", "", node, trouble=trouble)
    subs = (description.topology.subtopologies or ()) if description.topology is not None else ()
    reads = {
        s.subtopology_id: sorted({*s.source_topics, *(t.name for t in s.repartition_source_topics)})
        for s in subs
    }
    every = tuple(sorted({topic for topics in reads.values() for topic in topics}))
    members = tuple(
        LiveMember(
            m.member_id, m.client_id, m.client_host, m.instance_id, m.rack_id, every,
            tuple(
                (topic, p) for task in m.assignment.active_tasks for p in task.partitions
                for topic in reads.get(task.subtopology_id, ())
                if p < partition_counts.get(topic, 0)
            ),
            m.member_epoch,
        ) for m in description.members
    )  # fmt: skip
    return LiveGroup(description.group_id, "streams", description.group_state, "", node, members)


def _with_offsets(connection: ClusterConnection, group: LiveGroup) -> LiveGroup:
    from kafka.errors import KafkaError

    if group.type == "share":
        return group  # without offsets: each record is acknowledged on its own
    try:
        response = connection.admin.list_group_offsets(group.id)[group.id]
    except KafkaError as e:
        what = f"its offsets cannot be had: {error_reason(e)}"
        return replace(group, trouble=group.trouble or what)
    found = {(tp.topic, tp.partition): int(o.offset) for tp, o in response.items() if o.offset >= 0}
    return replace(group, committed=found)


def end_offsets(
    connection: ClusterConnection, metadata: Any, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Return the end offset of each Kafka partition in ``partitions``, as a dict by partition.

    Partitions that do not exist or have no leader are left out.

    Args:
        connection: open connection to the cluster.
        metadata: the cluster's metadata, with the leader of each partition.
        partitions: (topic, partition) pairs.
    """
    from kafka.errors import KafkaError
    from kafka.protocol.consumer import OffsetSpec
    from kafka.structs import TopicPartition

    there = {
        (t.name, p.partition_index) for t in metadata.topics if not t.error_code
        for p in t.partitions if p.leader_id >= 0
    }  # fmt: skip
    asked = {TopicPartition(*p): OffsetSpec.LATEST for p in partitions if p in there}
    if not asked:
        return {}
    try:
        response = connection.admin.list_partition_offsets(asked)
    except KafkaError:
        return {}
    return {(tp.topic, tp.partition): int(o.offset) for tp, o in response.items()}
