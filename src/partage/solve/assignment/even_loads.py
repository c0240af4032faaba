"""The most even (least-majorised) loads, by recursive minimum cuts, with a certificate.

The loads of all full assignments are the bases of an M-convex set, and such a set has one
least-majorised vector (Frank and Murota, "Decreasing minimization on M-convex sets", 2022). That
vector has the smallest largest load, the largest smallest load and the least sum of squares. The
certificate is one level per topic (see `BestLoads`).

The decomposition: give each member room for k partitions (k is the average, rounded down). If the
flow fills all members, each gets k or k + 1. Otherwise some topics find no room although other
members have room left. These topics and their subscribers are a subproblem with loads of at least
k, and the rest is a subproblem with loads of at most k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.solve.assignment.network import (
    LARGEST_NETWORK,
    UNBOUNDED,
    FlowNetwork,
    IntArray,
    WorkBudget,
    proportional_flow,
    sum_by_position,
)
from partage.solve.assignment.problem import Eligibility, SubscriptionClasses, find_classes

__all__ = ["BestLoads", "assign_members", "find_even_loads", "find_most_even_assignment"]


@dataclass(frozen=True, slots=True, eq=False)
class BestLoads:
    """The most even assignment of partitions to members, with a proof that none is more even.

    "Most even" means least-majorised: the largest load is as small as possible, then the second
    largest, and so on.

    Attributes:
        load: int64[members], partitions of each member. Only the sorted vector is unique; an
            equivalent member might have one more or less.
        owner: int32[sum of partitions], a plan with these loads, topic after topic; -1 for the
            partitions of topics without subscribers.
        topic_level: int64[topics], the certificate. For any k let A be the topics of a level above
            k, and N(A) the members that may own some of them. In every valid plan the sum of
            max(load - k, 0) is at least partitions(A) - k * size(N(A)), because the partitions of A
            can only go to N(A). Here the two are equal for every k. The least-majorised vector is
            the one that minimises all these sums.
    """

    load: IntArray
    owner: NDArray[np.int32]
    topic_level: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _EvenLoads:
    """The most even assignment, as arrays that the solver fills part by part.

    It has numbers of partitions for classes: topics with equal subscribers form a class, and so do
    members with equal subscriptions.

    Attributes:
        total: int64[member classes], partitions that each class of members gets.
        level: int64[topic classes], a load for each class of topics, which proves optimality (see
            `BestLoads`).
        share: int64[A], partitions that go from each class of topics to each class of members.
    """

    total: IntArray
    level: IntArray
    share: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Subproblem:
    """A part of the assignment problem that is solved separately: some topics and some members.

    The partitions of these topics go to these members only. A class contains topics with equal
    subscribers, or members with equal subscriptions.

    Attributes:
        topics: indices of the topic classes in the whole problem.
        members: indices of the member classes.
        arcs: indices of the pairs in which a member class subscribes to a topic class.
    """

    topics: IntArray
    members: IntArray
    arcs: IntArray


def find_most_even_assignment(eligibility: Eligibility) -> BestLoads:
    """Assign all partitions to the members that may own them, as evenly as possible.

    The largest number of partitions of a member is as small as possible, then the second largest,
    and so on (least-majorised). ``eligibility`` has the topics that each member may own.

    Raises:
        ProblemTooLargeError: the network has more than `LARGEST_NETWORK` arcs, or
            searching it would take more than some seconds.

    >>> eligibility = Eligibility(np.array([4, 2]), np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> best = find_most_even_assignment(eligibility)
    >>> best.load.tolist(), best.topic_level.tolist()
    ([3, 3], [3, 3])
    """
    classes = find_classes(eligibility)
    load, topic_level, share = find_even_loads(classes)
    return BestLoads(load, assign_partitions(classes, share, load), topic_level)


def find_even_loads(classes: SubscriptionClasses) -> tuple[IntArray, IntArray, IntArray]:
    """Compute the most even numbers of partitions that the members of a consumer group can get.

    "Most even" means: the largest number is as small as possible, then the second largest, and so
    on.

    Args:
        classes: classes of topics with equal subscribers, and of members with equal subscriptions.

    Returns:
        three int64 arrays: partitions of each member; a load for each topic that proves optimality
            (see `BestLoads`); partitions from each class of topics to each class of members.
    """
    if len(classes.arc_topic) > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the best loads need a network of {len(classes.arc_topic)} arcs, the limit is "
            f"{LARGEST_NETWORK}: {len(classes.size)} different subscriptions, "
            f"{len(classes.supply)} topics with different subscribers"
        )
    found = _EvenLoads(
        np.zeros(len(classes.size), np.int64),
        np.zeros(len(classes.supply), np.int64),
        np.zeros(len(classes.arc_topic), np.int64),
    )
    budget = WorkBudget()
    parts = [
        _Subproblem(
            np.arange(len(classes.supply)),
            np.arange(len(classes.size)),
            np.arange(len(classes.arc_topic)),
        )
    ]
    while parts:
        part = parts.pop()
        if len(part.members):
            parts += _solve_or_split(classes, part, found, budget)
    topic_level = np.zeros(len(classes.topic), np.int64)
    topic_level[classes.topic >= 0] = found.level[classes.topic[classes.topic >= 0]]
    return _share_evenly(classes, found.total), topic_level, found.share


def _share_evenly(classes: SubscriptionClasses, total: IntArray) -> IntArray:
    load = np.zeros(len(classes.member), np.int64)
    mine = np.flatnonzero(classes.member >= 0)
    mine = mine[np.argsort(classes.member[mine], kind="stable")]
    of = classes.member[mine]
    nth = np.arange(len(mine)) - np.searchsorted(of, of)
    load[mine] = total[of] // classes.size[of] + (nth < total[of] % classes.size[of])
    return load


def _solve_or_split(
    classes: SubscriptionClasses, subproblem: _Subproblem, result: _EvenLoads, budget: WorkBudget
) -> list[_Subproblem]:
    """Solve one part of the problem, or split it in two smaller parts by a minimum cut.

    A part is solved if its partitions can be divided so evenly that loads differ by at most one.
    Solved partition counts are written to ``result``. Return the parts that remain to be solved.

    Args:
        classes: topics with equal subscribers, and members with equal subscriptions.
        subproblem: the topics and members of this part.
        result: arrays of the whole problem; changed in place.
        budget: limit of the work of all flow searches.
    """
    supply, size = classes.supply[subproblem.topics], classes.size[subproblem.members]
    k = int(supply.sum() // size.sum())
    network, to_sink = _build_network(classes, subproblem, k, budget)
    network.maximise_flow()
    if int(network.flow_by_arc()[to_sink].sum()) < k * int(size.sum()):
        above, below = _split(
            classes, subproblem, _source_side_of_minimum_cut(network, len(supply))
        )
        return [above, below]
    if int(supply.sum()) > k * int(size.sum()):
        network.increase_capacities(to_sink, size)
        network.maximise_flow()
    found = network.flow_by_arc()[to_sink]
    higher = np.flatnonzero(found > k * size) + len(supply)
    # Topics that the residual network reaches from a member with k + 1 have level k + 1.
    at_higher_level = network.reachable_nodes(higher)[: len(supply)]
    stuck = _source_side_of_minimum_cut(network, len(supply))
    settled_topics = ~stuck[: len(supply)]
    settled_members = ~stuck[len(supply) : len(supply) + len(size)]
    result.level[subproblem.topics[settled_topics]] = k + at_higher_level[settled_topics]
    result.total[subproblem.members[settled_members]] = found[settled_members]
    # No settled topic sends flow to the stuck topics' members, or it would be stuck too.
    # The flow of stuck topics is written again with their own subproblem.
    result.share[subproblem.arcs] = network.flow_by_arc()[: len(subproblem.arcs)]
    # The subscribers of topics without room at k + 1 get that much or more.
    return [_split(classes, subproblem, stuck)[0]] if stuck.any() else []


def _build_network(
    classes: SubscriptionClasses, subproblem: _Subproblem, max_partitions: int, budget: WorkBudget
) -> tuple[FlowNetwork, IntArray]:
    """Build a flow network in which each member can get at most ``max_partitions`` partitions.

    Flow from topics to members is an assignment. The network already contains a first flow, which
    makes the search faster. The second result has the indices of the arcs into the sink.
    """
    topics, members, arcs = len(subproblem.topics), len(subproblem.members), len(subproblem.arcs)
    topic_at = np.full(len(classes.supply), -1, np.int64)
    topic_at[subproblem.topics] = np.arange(topics)
    member_at = np.full(len(classes.size), -1, np.int64)
    member_at[subproblem.members] = np.arange(members)
    row, column = (
        topic_at[classes.arc_topic[subproblem.arcs]],
        member_at[classes.arc_member[subproblem.arcs]],
    )
    supply, room = (
        classes.supply[subproblem.topics],
        classes.size[subproblem.members] * max_partitions,
    )
    source, sink = topics + members, topics + members + 1
    network = FlowNetwork(
        topics + members + 2,
        np.concatenate([row, np.full(topics, source), topics + np.arange(members)]),
        np.concatenate([topics + column, np.arange(topics), np.full(members, sink)]),
        np.concatenate([np.full(arcs, UNBOUNDED), supply, room]),
        source=source,
        sink=sink,
        budget=budget,
    )
    # A proportional flow costs about as much as a sweep over all arcs.
    budget.subtract_work(2 * arcs)
    amount = proportional_flow(row, column, supply, room)
    network.add_flow(
        np.arange(arcs + topics + members),
        np.concatenate(
            [
                amount,
                sum_by_position(row, amount, topics),
                sum_by_position(column, amount, members),
            ]
        ),
    )
    return network, arcs + topics + np.arange(members)


def _source_side_of_minimum_cut(network: FlowNetwork, topics: int) -> NDArray[np.bool_]:
    """Return the nodes on the source side of a minimum cut, as a mask (bool[nodes]).

    They are the topics that still have unassigned partitions, and all nodes that can be reached
    from them. The network must have a maximum flow.
    """
    from_source = network.out[network.start[network.source] : network.start[network.source + 1]]
    unplaced = network.head[from_source[network.left[from_source] > 0]]
    # No more flow can leave these nodes, so they are one side of a minimum cut.
    return network.reachable_nodes(unplaced[unplaced < topics])


def _split(
    classes: SubscriptionClasses, part: _Subproblem, stuck: NDArray[np.bool_]
) -> tuple[_Subproblem, _Subproblem]:
    topics, members = len(part.topics), len(part.members)
    topic_side = np.zeros(len(classes.supply), bool)
    topic_side[part.topics] = stuck[:topics]
    member_side = np.zeros(len(classes.size), bool)
    member_side[part.members] = stuck[topics : topics + members]
    of_topic = topic_side[classes.arc_topic[part.arcs]]
    of_member = member_side[classes.arc_member[part.arcs]]

    below_topics, below_members = ~topic_side[part.topics], ~member_side[part.members]
    return (
        _Subproblem(
            part.topics[~below_topics],
            part.members[~below_members],
            part.arcs[of_topic & of_member],
        ),
        _Subproblem(
            part.topics[below_topics],
            part.members[below_members],
            part.arcs[~of_topic & ~of_member],
        ),
    )


def assign_partitions(
    classes: SubscriptionClasses, partition_counts: IntArray, load: IntArray
) -> NDArray[np.int32]:
    """Choose the owner of each partition, given how many partitions each member gets (``load``).

    The numbers were computed before for classes of interchangeable topics and members.

    Args:
        classes: classes of topics with equal subscribers, and of members with equal subscriptions.
        partition_counts: int64[A], partitions that go from each class of topics to each class of
            members.
        load: int64[members], number of partitions of each member.

    Returns:
        the member of each partition, sorted by topic; -1 without subscribers.
    """
    topic = np.repeat(classes.topic, classes.partitions)
    owner = np.full(len(topic), -1, np.int64)
    assign_members(owner, topic, classes, partition_counts, load[classes.member >= 0])
    return owner.astype(np.int32)


def assign_members(
    owner: IntArray,
    topic: IntArray,
    classes: SubscriptionClasses,
    pair_counts: IntArray,
    member_counts: IntArray,
) -> None:
    """Choose owners for the unassigned partitions; each member gets ``member_counts`` of them.

    Topics with equal subscribers form a class, and so do members with equal subscriptions.
    Partitions of a class of topics are divided among classes of members as ``pair_counts`` says.

    Args:
        owner: int64[partitions], the owner of each partition, -1 for none; filled in place.
        topic: int64[partitions], class of each partition's topic, -1 for none.
        classes: classes of topics and members.
        pair_counts: int64[A], partitions that go from each class of topics to each class of
            members.
        member_counts: int64, number of partitions of each member that has a class.
    """
    pool = np.flatnonzero((owner < 0) & (topic >= 0))
    pool = pool[np.argsort(topic[pool], kind="stable")]
    target = np.repeat(classes.arc_member, pair_counts)
    pool = pool[np.argsort(target, kind="stable")]
    everyone = np.flatnonzero(classes.member >= 0)
    order = np.argsort(classes.member[everyone], kind="stable")
    owner[pool] = np.repeat(everyone[order], member_counts[order])
