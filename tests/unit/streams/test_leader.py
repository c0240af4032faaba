"""From members to assignments, by the facts that Kafka's own StreamsPartitionAssignorTest states."""

from __future__ import annotations

import pytest

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.streams import AssignmentConfigs, ProcessId, TaskId
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.leader import StreamsApplication, compute_group_assignment
from partage.streams.member_assignments import StreamsMemberAssignment, on_assignment
from partage.streams.members import StreamsMember
from partage.streams.registry import find_assignor, find_task_assignors
from partage.streams.sticky import LegacySticky
from partage.streams.topology import Subtopology, Topology

P1, P2 = ProcessId(0, 1), ProcessId(0, 2)


def stateless(*topics):
    return Topology([Subtopology(number, (topic,)) for number, topic in enumerate(topics)])


def ask(app, members, **more):
    return compute_group_assignment(app, members, **{"leader": P1, "now_ms": 0, **more})


def active(answer):
    return {
        name: sorted({str(task) for task in one.active}) for name, one in answer.consumers.items()
    }


def test_stateless_tasks_of_two_subtopologies_alternate_between_threads() -> None:
    """One process, two consumers, 2 x 4 stateless tasks: each thread gets every other one."""
    app = StreamsApplication(stateless("a", "b"), {"a": 4, "b": 4})
    answer = ask(app, [StreamsMember("c10", P1), StreamsMember("c11", P1)])
    assert active(answer) == {
        "c10": ["0_0", "0_2", "1_0", "1_2"],
        "c11": ["0_1", "0_3", "1_1", "1_3"],
    }
    assert answer.stable


def test_a_joined_source_with_fewer_partitions_leaves_the_last_tasks_without_it() -> None:
    """3-partition topics joined with one of 4: four tasks, the last reads the long topic alone."""
    app = StreamsApplication(
        Topology([Subtopology(0, ("t1", "t2", "t3"))]), {"t1": 3, "t2": 3, "t3": 4}
    )
    answer = ask(app, [StreamsMember("c", P1)])
    assert answer.layout.partitions_of[TaskId(0, 3)] == (("t3", 3),)
    assert len(answer.consumers["c"].partitions) == 10


def test_what_others_own_is_withheld_as_a_whole_task_for_one_round() -> None:
    """A new client gets nothing yet, and rebalances at once; the target plan has it already."""
    app = StreamsApplication(stateless("t1"), {"t1": 4})
    members = [
        StreamsMember("c10", P1, owned=[("t1", 0), ("t1", 2)]),
        StreamsMember("c11", P1, owned=[("t1", 1), ("t1", 3)]),
        StreamsMember("c20", P2),
    ]
    answer = ask(app, members)
    fresh = answer.consumers["c20"]
    assert fresh.partitions == ()
    assert fresh.standby == {}
    assert fresh.next_rebalance_ms == 0
    assert fresh.withheld == tuple(answer.plan.active_of(P2))
    assert not answer.stable


def test_a_thread_of_the_same_process_waits_for_its_neighbour() -> None:
    """A second consumer of one process gets nothing of what the first still owns, now or as standby."""
    app = StreamsApplication(stateless("t1"), {"t1": 3})
    owned = [("t1", 0), ("t1", 1), ("t1", 2)]
    answer = ask(app, [StreamsMember("c1", P1, owned=owned), StreamsMember("c2", P1)])
    assert answer.consumers["c2"].partitions == ()
    assert answer.consumers["c2"].standby == {}
    assert answer.consumers["c2"].next_rebalance_ms == 0
    assert len(answer.consumers["c1"].partitions) < 3


def test_a_withheld_task_stays_a_standby_where_it_was_one() -> None:
    """A stateful task that is to move to its standby keeps the standby for the round between."""
    topology = Topology([Subtopology(0, ("t",), changelogs=("log",))])
    app = StreamsApplication(
        topology, {"t": 2, "log": 2}, end_offsets={("log", 0): 5, ("log", 1): 5}
    )
    members = [
        StreamsMember(
            "a", P1, owned=[("t", 0), ("t", 1)], offset_sums={TaskId(0, 0): -2, TaskId(0, 1): -2}
        ),
        StreamsMember("b", P2, offset_sums={TaskId(0, 1): 5}),
    ]
    answer = ask(app, members)
    assert answer.plan.active_of(P2) == [TaskId(0, 1)]
    assert answer.consumers["b"].partitions == ()
    assert answer.consumers["b"].standby == {TaskId(0, 1): (("t", 1),)}


def far_behind(**settings):
    topology = Topology([Subtopology(0, ("t",), changelogs=("log",))])
    ends = {("log", number): 10**6 for number in range(3)}
    app = StreamsApplication(
        topology, {"t": 3, "log": 3}, AssignmentConfigs(**settings), end_offsets=ends
    )
    ran = dict.fromkeys((TaskId(0, number) for number in range(3)), -2)
    owner = StreamsMember("a", P1, owned=[("t", n) for n in range(3)], offset_sums=ran)
    return app, [owner, StreamsMember("b", P2)]


def test_warm_ups_make_the_leaders_first_consumer_probe() -> None:
    """Only the leader's client gets a time for the next probing rebalance."""
    app, members = far_behind()
    answer = ask(app, members, now_ms=1000)
    assert answer.plan.probing
    assert answer.plan.warmups
    assert answer.consumers["a"].next_rebalance_ms == 1000 + 600_000
    assert answer.consumers["b"].next_rebalance_ms == LONG_MAX
    assert not answer.stable


def test_ends_that_cannot_be_had_leave_everything_where_it_runs() -> None:
    """Without end offsets the fallback runs, whatever was asked for but the sticky assignor."""
    app, members = far_behind()
    blind = StreamsApplication(app.topology, app.counts, app.settings, end_offsets=None)
    answer = ask(blind, members)
    assert active(answer) == {"a": ["0_0", "0_1", "0_2"], "b": []}
    assert answer.consumers["a"].next_rebalance_ms == 600_000
    sticky = ask(blind, members, assignor=LegacySticky())
    assert not sticky.plan.probing


def test_a_missing_source_topic_gives_everybody_code_1() -> None:
    """No tasks, code 1, and the reason names the topic; of named topologies only the one waits."""
    answer = ask(
        StreamsApplication(stateless("there", "absent"), {"there": 1}), [StreamsMember("c", P1)]
    )
    assert answer.consumers == {"c": StreamsMemberAssignment(error_code=1)}
    assert "absent" in answer.error
    named = Topology(
        [Subtopology(0, ("there",), topology="x"), Subtopology(0, ("absent",), topology="y")]
    )
    answer = ask(StreamsApplication(named, {"there": 1}), [StreamsMember("c", P1)])
    assert active(answer) == {"c": ["x__0_0"]}
    assert answer.layout.excluded == {"y": ("absent",)}


def test_undefined_partition_counts_give_every_member_code_3() -> None:
    """A cycle of repartition topics: code 3, naming them."""
    cycle = Topology(
        [
            Subtopology(0, ("r1",), sinks=("r2",), repartition={"r1": None}),
            Subtopology(1, ("r2",), sinks=("r1",), repartition={"r2": None}),
        ]
    )
    answer = ask(StreamsApplication(cycle, {}), [StreamsMember("c", P1)])
    assert answer.consumers["c"].error_code == 3
    assert "r1, r2" in answer.error


def test_a_member_that_asks_for_shutdown_gets_it_for_all() -> None:
    """Code 4 for everybody and nothing else, whatever the topics."""
    members = [StreamsMember("a", P1, shutdown=True), StreamsMember("b", P2)]
    answer = ask(StreamsApplication(stateless("absent"), {}), members)
    assert {one.error_code for one in answer.consumers.values()} == {4}


def test_versions_are_the_lowest_used_and_the_latest_that_all_support() -> None:
    """v1 with v2 gives v1; a future member with v1 or v2 gives code 3, with v3 a probing round."""
    app = StreamsApplication(stateless("t"), {"t": 1})

    def versions(*used):
        members = [
            StreamsMember(f"c{place}", ProcessId(0, place), version=one, latest_version=max(one, 3))
            for place, one in enumerate(used)
        ]
        return ask(app, members)

    assert {one.version for one in versions(1, 2).consumers.values()} == {1}
    assert {one.version for one in versions(2, 3).consumers.values()} == {2}
    assert {one.error_code for one in versions(2, 12).consumers.values()} == {3}
    probing = versions(3, 12)
    assert {one.version for one in probing.consumers.values()} == {3}
    assert not probing.stable
    mute = [
        StreamsMember("old", ProcessId(0, 1), version=2, latest_version=-1),
        StreamsMember("new", ProcessId(0, 2), version=2, latest_version=11),
    ]
    assert {one.common_version for one in ask(app, mute).consumers.values()} == {-1}


def test_members_of_the_future_are_one_client_without_state() -> None:
    """Two future consumers, three tasks: dealt as to two threads of one client, no standbys."""
    app = StreamsApplication(stateless("t"), {"t": 3}, AssignmentConfigs(num_standby_replicas=1))
    members = [
        StreamsMember("c1", P1, version=12, latest_version=12, endpoint=("h", 1)),
        StreamsMember("c2", P2, version=12, latest_version=12),
    ]
    answer = ask(app, members)
    assert active(answer) == {"c1": ["0_0", "0_2"], "c2": ["0_1"]}
    assert len(answer.plan.problem.clients) == 1
    assert answer.hosts == {}
    assert {one.version for one in answer.consumers.values()} == {11}


def test_hosts_are_those_of_the_target_plan() -> None:
    """Actives of one host are the standbys of the other, and all partitions are there."""
    topology = Topology([Subtopology(0, ("t",), changelogs=("log",))])
    app = StreamsApplication(topology, {"t": 4}, AssignmentConfigs(num_standby_replicas=1))
    members = [
        StreamsMember("a", P1, endpoint=("one", 1)),
        StreamsMember("b", P2, endpoint=("two", 2)),
    ]
    answer = ask(app, members)
    assert answer.hosts["one", 1] == answer.standby_hosts["two", 2]
    assert set(answer.hosts["one", 1] + answer.hosts["two", 2]) == {("t", n) for n in range(4)}
    assert answer.layout.to_create == {"log": 4}


def test_another_applications_member_ends_the_leader() -> None:
    """Owned partitions of which no task reads one: to Kafka an illegal state, here a clear error."""
    app = StreamsApplication(stateless("t"), {"t": 1, "other": 1})
    with pytest.raises(InvalidTopologyError, match="another application") as caught:
        ask(app, [StreamsMember("a", P1, owned=[("other", 0)])])
    assert caught.value.java_exception == "IllegalStateException"


@pytest.mark.parametrize("total", [-1, -4, 2**63])
def test_offset_sums_out_of_range_are_refused(total) -> None:
    """A sum that is negative and no sentinel, or beyond int64, is an error that names the task."""
    app, members = far_behind()
    wrong = StreamsMember("c", ProcessId(0, 3), offset_sums={TaskId(0, 1): total})
    with pytest.raises(InvalidProblemError, match="0_1"):
        ask(app, [*members, wrong])


def test_a_version_below_1_is_refused() -> None:
    """There is no subscription of version 0."""
    with pytest.raises(InvalidProblemError, match="version"):
        StreamsMember("c", P1, version=0)


def test_the_assignors_of_2017_stop_the_group_and_take_turns() -> None:
    """Nothing is withheld, nothing probed; standbys of all tasks, in turn over the consumers."""
    app = StreamsApplication(stateless("t"), {"t": 4}, AssignmentConfigs(num_standby_replicas=1))
    members = [
        StreamsMember("a", P1, owned=[("t", number) for number in range(4)]),
        StreamsMember("b", P1),
        StreamsMember("c", P2),
    ]
    for name in ("0.10.2", "0.11"):
        answer = ask(app, members, assignor=find_assignor(name))
        assert not any(one.withheld for one in answer.consumers.values())
        assert sum(len(one.active) for one in answer.consumers.values()) == 4
        assert sum(len(one.standby) for one in answer.consumers.values()) == 4
        sizes = [
            len(answer.consumers[one].active + tuple(answer.consumers[one].standby)) for one in "ab"
        ]
        assert max(sizes) - min(sizes) <= 1


def test_a_member_follows_its_assignment() -> None:
    """Version first, then a missing host, then the encoded time."""
    later = StreamsMemberAssignment(next_rebalance_ms=500)
    assert on_assignment(later, version=11).rebalance_ms == 500
    assert on_assignment(later, version=11, endpoint=("a", 1), hosts=[("b", 1)]).rebalance_ms == 0
    assert on_assignment(later, version=11, endpoint=("a", 1), hosts=[("a", 1)]).rebalance_ms == 500
    older = StreamsMemberAssignment(version=3, common_version=3)
    assert on_assignment(older, version=5).version == 3
    assert (
        on_assignment(StreamsMemberAssignment(version=3, common_version=5), version=3).version == 5
    )
    assert (
        on_assignment(StreamsMemberAssignment(version=2, common_version=5), version=3).version == 3
    )
    with pytest.raises(InvalidProblemError):
        on_assignment(StreamsMemberAssignment(version=5), version=4)
    with pytest.raises(InvalidProblemError):
        on_assignment(StreamsMemberAssignment(common_version=12), version=11)


@pytest.mark.parametrize("name", find_task_assignors())
def test_every_plan_comes_with_the_topics_to_create(name) -> None:
    """Repartition and changelog topics with their counts, whichever assignor plans; one that is
    there with another count is an error that names it.
    """
    topology = Topology([
        Subtopology(0, ("lines",), sinks=("by-word",)),
        Subtopology(1, ("by-word",), repartition={"by-word": None}, changelogs=("counts",)),
    ])  # fmt: skip
    members = [StreamsMember("a", P1), StreamsMember("b", P2)]
    answer = ask(StreamsApplication(topology, {"lines": 3}), members, assignor=find_assignor(name))
    assert answer.layout.to_create == {"by-word": 3, "counts": 3}
    assert answer.plan.problem.tasks == tuple(TaskId(g, p) for g in (0, 1) for p in range(3))
    there = StreamsApplication(topology, {"lines": 3, "by-word": 3, "counts": 2})
    with pytest.raises(InvalidTopologyError, match="counts has 2, not 3") as refused:
        ask(there, members, assignor=find_assignor(name))
    assert refused.value.topics == ("counts",)
