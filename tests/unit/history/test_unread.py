"""Unread times of small groups, by generations and acknowledged assignments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partage.history.clusters import ClusterHistory
from partage.history.commits import CommitStretch
from partage.history.events import Cause, CurrentAssignment, Generation
from partage.history.pauses import PauseTracker
from partage.history.records import ClassicState, LogPosition, MemberState, Subscription
from partage.history.state_store import pack_state, unpack_state
from partage.history.stop_model import (
    MemberCommits,
    UnreadEstimate,
    before_record,
    departure_time,
    revocation_time,
    uniform_instant,
)
from partage.history.unread import UnreadTracker


def member(name: str, *numbers: int, owned: tuple[int, ...] = (), topic: str = "t") -> MemberState:
    claims = (("t", owned),) if owned else ()
    subscription = Subscription(3, (topic,), None, claims, 1, None)
    assigned = (("t", numbers),) if numbers else ()
    return MemberState(name, None, name, "/h", 15_000, 6_000, subscription, assigned, 3, b"", None)


class Group:
    """A classic group whose generations are fed one after the other."""

    def __init__(self, strategy: str = "range") -> None:
        self.strategy, self.before = strategy, None
        self.commits = PauseTracker()
        self.tracker = UnreadTracker(self.commits, ClusterHistory([]))

    def commit(self, at_ms: int, *numbers: int) -> None:
        for p in numbers:
            self.commits.process_commit_stretch(
                CommitStretch("t", p, 1, at_ms, at_ms, 5, 5, latest_ms=at_ms)
            )

    def generation(
        self, at_ms: int, *members: MemberState, cause: str = "", of: str = "a"
    ) -> UnreadEstimate:
        """Feed a generation with a cause ``of`` a member; return the unread time that it ended."""
        number = 1 if self.before is None else self.before.generation_number + 1
        state = ClassicState("consumer", number, self.strategy, None, None, members)
        found = Generation(
            0, LogPosition(0, number), at_ms, state, state, 1, 0, None, protocol="classic",
            causes=(Cause(cause, "inferred", of),) if cause else (),
        )  # fmt: skip
        self.tracker.process_rebalance(found, self.before)
        self.before = found
        return self.tracker.estimate_unread()


def test_first_assignments_are_no_loss() -> None:
    """The first generation ends no unread time."""
    assert Group().generation(1_000, member("a", 0, 1)) == UnreadEstimate()


def test_an_eager_member_stops_with_its_last_commit() -> None:
    """Both partitions are unread from the commit at revocation, 400 ms before the record."""
    group = Group()
    group.tracker.state.prompt = group.tracker.state.stops = 8
    group.generation(1_000, member("a", 0, 1))
    for at in (4_000, 8_000, 9_600):
        group.commit(at, 0, 1)
    found = group.generation(10_000, member("a", 0), member("b", 1))
    assert found.best == pytest.approx(2 * 0.43, abs=0.1)
    assert found.p10 <= found.best <= found.p90


def test_a_cooperative_member_keeps_what_it_claims() -> None:
    """Only the partition that moves stops, from the first record to the second."""
    group = Group("cooperative-sticky")
    group.generation(1_000, member("a", 0, 1))
    assert group.generation(5_000, member("a", 0, owned=(0, 1)), member("b")).best == 0
    found = group.generation(7_000, member("a", 0, owned=(0,)), member("b", 1))
    assert found.best == pytest.approx(2.0, abs=0.1)


def test_a_dead_member_stopped_a_session_timeout_before_its_eviction() -> None:
    """Its partition was unread for its session timeout less up to one heartbeat."""
    group = Group("cooperative-sticky")
    group.generation(1_000, member("a", 0), member("b", 1))
    for at in (2_000, 3_000, 4_000, 5_000):
        group.commit(at, 0, 1)
    for at in range(6_000, 12_000, 1_000):
        group.commit(at, 1)
    found = group.generation(11_500, member("b", 0, 1, owned=(1,)))
    assert 5.0 <= found.best <= 6.6
    assert 4.0 <= found.p10 < found.p90 <= 7.5


def test_time_without_members_is_apart() -> None:
    """The group is empty from 5 to 60 s; then it waits for members up to 3 s."""
    group = Group()
    group.tracker.state.prompt = group.tracker.state.stops = 8
    group.generation(1_000, member("a", 0))
    group.commit(2_000, 0)
    group.commit(5_000, 0)
    assert group.generation(5_010) == UnreadEstimate()
    found = group.generation(60_000, member("b", 0))
    assert found.best < 3.1
    assert found.no_consumer == pytest.approx(53.5, abs=0.5)


def test_an_assignment_that_no_member_received_does_not_end_the_unread_time() -> None:
    """The same members rejoin after 3 s, and none has committed: both partitions stayed unread."""
    for commits, least, most in (((), 4.0, 6.1), ((7_900,), 0.0, 1.0)):
        group = Group()
        group.generation(1_000, member("a", 0, 1))
        for at in (2_000, 3_000, 4_000):
            group.commit(at, 0, 1)
        group.generation(5_000, member("a", 0, 1), member("b"))
        for at in commits:
            group.commit(at, 0, 1)
        found = group.generation(8_000, member("a", 0, 1), member("b"), cause="request")
        assert least <= found.best <= most


def test_a_member_that_exceeded_its_poll_interval_was_alive() -> None:
    """It owns its partitions until it polls again; the time without a member counts for none."""
    for cause, apart in (("poll", 0.0), ("leave", 39.0)):
        group = Group()
        group.generation(1_000, member("a", 0))
        group.commit(4_000, 0)
        group.commit(5_000, 0)
        group.generation(20_000, cause=cause)
        again = replace(member("a-2", 0), client_id="a")
        found = group.generation(60_000, again)
        assert found.best == pytest.approx(1.5, abs=0.1)
        assert found.no_consumer == pytest.approx(apart, abs=0.2)


def test_a_member_that_stopped_polling_loses_no_time_to_another_owner() -> None:
    """Another member is assigned the partition while its owner still counts as its reader."""
    for cause, least, most in (("poll", 0.0, 0.1), ("expiry", 2.0, 16.0)):
        group = Group()
        group.generation(1_000, member("a", 0), member("b", 1))
        for at in range(2_000, 20_000, 1_000):
            group.commit(at, 1)
            group.commit(at, *(0,) * (at <= 12_000))
        found = group.generation(20_000, member("b", 0, 1, owned=(1,)), cause=cause)
        assert least <= found.best <= most


@pytest.mark.parametrize(("at", "least", "most"), [(27_000, 0.0, 0.5), (22_000, 3.0, 13.0)])
def test_a_poll_after_its_assignment_shows_that_a_member_received_it(at, least, most) -> None:
    """The member's poll timeout of 15 s began after its assignment at 10 s, or before it."""
    group = Group()
    group.generation(1_000, member("a", 0), member("b", 1))
    for time_ms in range(2_000, 10_000, 1_000):
        group.commit(time_ms, 0, 1)
    group.generation(10_000, member("a", 0), member("b", 1))
    for time_ms in range(11_000, at, 1_000):
        group.commit(time_ms, 1)
    found = group.generation(at, member("b", 0, 1, owned=(1,)), cause="poll")
    assert least <= found.best <= most


def test_an_evicted_member_probably_died() -> None:
    """Without a commit, the cause decides whether it stopped when the rebalance began or before."""
    begun = uniform_instant(100_000, 100_100)
    left, died = (
        departure_time(MemberCommits(None, None, 0.5), begun, 6_000, 1_500, is_evicted=is_evicted)
        for is_evicted in (False, True)
    )
    assert left.mean > 98_000 > died.mean


def test_time_without_a_subscriber_is_apart() -> None:
    """From 5 to 9 s no member subscribes to the topic."""
    group = Group()
    group.generation(1_000, member("a", 0))
    group.generation(5_000, member("a", topic="u"))
    found = group.generation(9_000, member("a", 0))
    assert found.no_consumer == pytest.approx(4.0, abs=0.1)


def acknowledged(at_ms: int, name: str, *numbers: int, epoch: int = 3) -> CurrentAssignment:
    parts = tuple(("owner", None, "t", p) for p in numbers)
    return CurrentAssignment(0, LogPosition(0, at_ms), at_ms, 3, name, None, epoch, parts)


def test_acknowledgements_of_a_consumer_group_are_exact() -> None:
    """A partition is unread from its revocation to its assignment; the others are not."""
    group = Group()
    state = ClassicState("consumer", 2, "server:uniform", None, None, (member("a"), member("b")))
    found = Generation(
        0, LogPosition(0, 0), 900, state, state, 1, 0, None, protocol="consumer"
    )  # fmt: skip
    group.tracker.process_rebalance(found, None)
    group.tracker.process_acknowledgement(acknowledged(1_000, "a", 0, 1))
    group.tracker.process_acknowledgement(acknowledged(4_000, "a", 0))
    group.tracker.process_acknowledgement(acknowledged(6_500, "b", 1))
    estimate = group.tracker.estimate_unread()
    assert estimate.best == pytest.approx(2.5, abs=0.1)
    assert estimate.p90 - estimate.p10 < 1.0


def test_the_last_member_of_a_consumer_group_leaves_it_without_a_consumer() -> None:
    """No target assignment follows a departure of the last member: its tombstone tells it."""
    group = Group()
    state = ClassicState("consumer", 2, "server:uniform", None, None, (member("a"),))
    found = Generation(
        0, LogPosition(0, 0), 900, state, state, 1, 0, None, protocol="consumer"
    )  # fmt: skip
    group.tracker.process_rebalance(found, None)
    group.tracker.process_acknowledgement(acknowledged(1_000, "a", 0))
    group.tracker.process_acknowledgement(acknowledged(4_000, "a", epoch=-1))
    again = replace(state, members=(member("b"),))
    group.tracker.process_rebalance(
        replace(found, timestamp_ms=9_000, first=again, last=again), found
    )
    group.tracker.process_acknowledgement(acknowledged(9_000, "b", 0))
    estimate = group.tracker.estimate_unread()
    assert estimate.no_consumer >= 4.9
    assert estimate.best < 1.0


def test_the_state_can_be_stored() -> None:
    """A tracker that resumes from its stored state gives the same estimate."""
    estimates = []
    for is_stored in (False, True):
        group = Group("cooperative-sticky")
        group.generation(1_000, member("a", 0, 1))
        group.generation(5_000, member("a", 0, owned=(0, 1)), member("b"))
        if is_stored:
            state = unpack_state(pack_state(group.tracker.state))
            group.tracker = UnreadTracker(group.commits, ClusterHistory([]), state=state)
        estimates.append(group.generation(7_000, member("a", 0, owned=(0,)), member("b", 1)))
    assert estimates[0] == estimates[1]


def test_a_member_that_committed_just_now_has_not_died() -> None:
    """A commit younger than the session timeout less a heartbeat excludes an eviction."""
    begun = before_record(100_000)
    left = departure_time(MemberCommits(99_900, 1_000, 0.97), begun, 6_000, 1_500)
    died = departure_time(MemberCommits(94_200, 1_000, 0.97), begun, 6_000, 1_500)
    assert left.mean > 99_800
    assert left.variance**0.5 < 200
    assert 94_200 <= died.mean <= 95_500


def test_a_static_member_never_leaves() -> None:
    """It sends no LeaveGroup: its session timed out."""
    begun = before_record(100_000)
    found = departure_time(MemberCommits(None, None, 0.5), begun, 6_000, 1_500, static=True)
    assert found.latest <= 100_000 - 6_000 + 1_500


def test_the_only_member_that_rejoins_ends_the_rebalance() -> None:
    """It stopped a moment before the record; of two members, one waits for the other."""
    alone, two = (revocation_time(MemberCommits(), 10_000, 3_000, n) for n in (1, 2))
    assert 10_000 - alone.mean < 100
    assert 500 < 10_000 - two.mean < 1_500


def test_commits_in_one_millisecond_have_an_interval() -> None:
    """Commits may follow each other within a millisecond: their usual interval is 0 then."""
    begun = before_record(100_000)
    found = departure_time(MemberCommits(94_200, 0, 0.5), begun, 6_000, 1_500)
    assert 94_000 <= found.mean <= 100_000


def test_each_partition_has_an_interval() -> None:
    """The one that moves has both owners, and the time between the two records."""
    group = Group("cooperative-sticky")
    group.generation(1_000, member("a", 0, 1))
    group.generation(5_000, member("a", 0, owned=(0, 1)), member("b"))
    assert group.tracker.take_intervals() == ()
    estimate = group.generation(7_000, member("a", 0, owned=(0,)), member("b", 1))
    (found,) = group.tracker.take_intervals()
    assert (found.topic, found.partition, found.member, found.new_owner) == ("t", 1, "a", "b")
    assert 5_000 <= found.stopped_p10_ms <= found.stopped_ms <= found.stopped_p90_ms <= 5_250
    assert 7_000 <= found.assigned_ms <= 7_250
    assert (found.unread_ms, found.no_consumer_ms) == (round(1_000 * estimate.best), 0)
    assert found.unread_p10_ms <= found.unread_ms <= found.unread_p90_ms
    assert group.tracker.take_intervals() == ()


def test_a_commit_long_before_a_short_rebalance_does_not_mark_the_revocation() -> None:
    """A member without another one to wait for revokes just before the record."""
    long_ago, at_once = (MemberCommits(last, 5_000, 0.5) for last in (7_000, 9_990))
    for commits in (long_ago, at_once):
        assert 10_000 - revocation_time(commits, 10_000, 1_500, 1).mean < 500


def test_a_stalled_client_that_rejoins_was_running() -> None:
    """Its partitions were taken over by a member that left; nobody read them until it rejoined."""
    group = Group()
    group.generation(1_000, member("a", 0), member("b", 1))
    group.generation(16_000, member("b", 0, 1), cause="poll")
    group.commit(20_000, 0, 1)
    group.generation(20_010)
    found = group.generation(26_000, replace(member("a-2", 0, 1), client_id="a"))
    assert found.no_consumer == 0
    assert found.best == pytest.approx(2 * 6.0, abs=1.5)


def test_a_topic_without_a_subscriber_has_no_consumer_in_a_consumer_group() -> None:
    """Its owner unsubscribes, acknowledges that 1 s later, and subscribes again at 9 s."""
    tracker = Group().tracker
    state = ClassicState("consumer", 2, "server:uniform", None, None, (member("a"),))
    first = Generation(
        0, LogPosition(0, 0), 900, state, state, 1, 0, None, protocol="consumer"
    )  # fmt: skip
    tracker.process_rebalance(first, None)
    tracker.process_acknowledgement(acknowledged(1_000, "a", 0))
    other = replace(state, members=(member("a", topic="u"),))
    second = replace(first, timestamp_ms=3_000, first=other, last=other)
    tracker.process_rebalance(second, first)
    tracker.process_acknowledgement(acknowledged(4_000, "a"))
    tracker.process_rebalance(replace(first, timestamp_ms=9_000), second)
    tracker.process_acknowledgement(acknowledged(9_500, "a", 0))
    estimate = tracker.estimate_unread()
    (found,) = tracker.take_intervals()
    assert estimate.no_consumer == pytest.approx(4.8, abs=0.1)
    assert estimate.best == pytest.approx(0.63, abs=0.1)
    assert found.no_consumer_from_ms == pytest.approx(4_200, abs=50)


@pytest.mark.parametrize(("delay_ms", "best"), [(None, 1.53), (300, 0.46), (0, 0.16)])
def test_an_empty_group_waits_for_the_brokers_initial_delay(delay_ms, best) -> None:
    """The only member started this delay and 130 ms before the record; unknown, it is at most 3 s."""
    group = Group()
    group.tracker = UnreadTracker(group.commits, ClusterHistory([]), initial_delay_ms=delay_ms)
    group.generation(1_000, member("a", 0))
    group.generation(5_000)
    assert group.generation(60_000, member("b", 0)).best == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize(("others", "best"), [((), 0.46), ((member("b", topic="u"),), 1.53)])
def test_the_initial_delay_holds_for_empty_groups_only(others, best) -> None:
    """A stalled client rejoins: alone it waits 300 ms, with others for their heartbeat, up to 3 s."""
    group = Group()
    group.tracker = UnreadTracker(group.commits, ClusterHistory([]), initial_delay_ms=300)
    group.generation(1_000, member("a", 0), *others)
    group.generation(16_000, *others, cause="poll")
    found = group.generation(26_000, replace(member("a-2", 0), client_id="a"), *others)
    assert found.best == pytest.approx(best, abs=0.01)


def test_a_stalled_client_does_not_count_for_topics_of_others() -> None:
    """Nobody subscribes to `u` from 5 s on; a client that reads `t` stalls and rejoins meanwhile."""
    group = Group()
    other = Subscription(3, ("u",), None, (), 1, None)
    reader = replace(member("b", topic="u"), assigned=(("u", (0,)),), subscription=other)
    group.generation(1_000, member("a", 0), reader)
    group.generation(5_000, member("a", 0))
    group.generation(21_000, member("c", 0), cause="poll")
    group.generation(25_000, member("c"), replace(member("a-2", 0), client_id="a"))
    found = group.generation(45_000, member("c", 0), replace(reader, id="d"))
    assert found.no_consumer == pytest.approx(40.0, abs=1.0)
    assert found.best < 6.0


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_stored_tracker_remembers_which_members_stalled(is_stored) -> None:
    """A stalled member's tombstone follows its rebalance, in the next micro-batch or the same."""
    tracker = Group().tracker
    state = ClassicState("consumer", 2, "server:uniform", None, None, (member("a"), member("b")))
    first = Generation(
        0, LogPosition(0, 0), 900, state, state, 1, 0, None, protocol="consumer"
    )  # fmt: skip
    tracker.process_rebalance(first, None)
    tracker.process_acknowledgement(acknowledged(1_000, "a", 0))
    rest = replace(state, members=(member("b"),))
    second = replace(
        first, timestamp_ms=16_000, first=rest, last=rest, causes=(Cause("poll", "inferred", "a"),)
    )
    tracker.process_rebalance(second, first)
    if is_stored:
        stored = unpack_state(pack_state(tracker.state))
        tracker = UnreadTracker(PauseTracker(), ClusterHistory([]), state=stored)
    tracker.process_acknowledgement(replace(acknowledged(16_010, "a"), member_epoch=-1))
    tracker.process_rebalance(replace(first, timestamp_ms=30_000), second)
    tracker.process_acknowledgement(acknowledged(30_100, "a", 0))
    assert tracker.estimate_unread().best == pytest.approx(0.33, abs=0.05)


@pytest.mark.parametrize(("commits", "best"), [(True, 0.9), (False, 10.6)])
def test_a_silent_member_may_never_have_received_its_assignment(commits, best) -> None:
    """A member rejoins 20 s after its assignment; without a commit it has read nothing, by one half."""
    group = Group()
    group.generation(1_000, member("a", 0))
    for at_ms in range(2_000, 22_000, 5_000):
        group.commit(at_ms, 0)
    group.generation(24_000, member("a", 0), member("b"), cause="join")
    for at_ms in range(29_000, 44_000, 5_000) if commits else ():
        group.commit(at_ms, 0)
    found = group.generation(44_000, member("a", 0), member("c"), cause="join")
    assert found.best == pytest.approx(best, abs=0.6)
    assert found.p10 <= 0.1
    assert (found.p90 > 15) is not commits


@pytest.mark.parametrize("shares_client_id", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_an_evicted_client_that_rejoins_was_running(shares_client_id, is_stored) -> None:
    """Another member took its partitions over and left; the client rejoins 6 s later."""
    group = Group()
    app = "b" if shares_client_id else "a"
    group.generation(1_000, replace(member("a", 0), client_id=app), member("b", 1))
    group.generation(16_000, member("b", 0, 1), cause="expiry")
    group.commit(20_000, 0, 1)
    if is_stored:
        group.tracker.state = unpack_state(pack_state(group.tracker.state))
    group.generation(20_010)
    found = group.generation(26_000, replace(member("a-2", 0, 1), client_id=app))
    apart = 2 * 4.5 if shares_client_id else 0.0  # a new client may have joined at 24.5 s
    assert found.no_consumer == pytest.approx(apart, abs=0.1)
    assert found.best == pytest.approx(12.0 - apart, abs=1.0)


def test_an_evicted_client_is_forgotten_after_a_minute() -> None:
    """It rejoins 70 s after its eviction: its process may have been started again."""
    group = Group()
    group.generation(1_000, member("a", 0), member("b", 1))
    group.generation(16_000, member("b", 0, 1), cause="expiry")
    group.commit(80_000, 0, 1)
    group.generation(80_010)
    found = group.generation(86_000, replace(member("a-2", 0, 1), client_id="a"))
    assert found.no_consumer == pytest.approx(9.0, abs=0.1)


@pytest.mark.parametrize(
    ("cause_of_b", "last_of_b", "best"), [("leave", 11_000, 9.0), ("poll", 4_000, 1.5)]
)
def test_an_assignment_after_the_last_poll_was_never_read(cause_of_b, last_of_b, best) -> None:
    """Member a stalled at 5 s, but got partition 1 at 12 s. If b stalled, too, b still reads it."""
    group = Group("cooperative-sticky")
    group.generation(1_000, member("a", 0), member("b", 1))
    for at in range(2_000, 12_000, 1_000):
        group.commit(at, *(0,) * (at <= 5_000), *(1,) * (at <= last_of_b))
    group.generation(12_000, member("a", 0, 1, owned=(0,)), cause=cause_of_b, of="b")
    again = replace(member("c", 0, 1), client_id="b")
    found = group.generation(21_000, again, cause="poll")
    assert found.best == pytest.approx(best, abs=0.2)


@pytest.mark.parametrize(
    ("cause", "instance", "least", "most"),
    [("join", "one", 14.0, 15.5), ("expiry", "one", 30.0, 34.0), ("join", None, 30.0, 34.0)],
)
def test_the_coordinator_keeps_a_static_member_that_missed_a_rebalance(
    cause, instance, least, most
) -> None:
    """Member a is silent for longer than the rebalance timeout of 15 s, but waited for nobody."""
    a = replace(member("a", 0), instance=instance)
    group = Group()
    group.tracker.state.prompt = group.tracker.state.stops = 8
    group.generation(1_000, a, member("b", 1))
    for at in range(2_000, 5_000, 1_000):
        group.commit(at, 0, 1)
    for at in range(5_000, 8_000, 1_000):
        group.commit(at, 1)
    found = group.generation(22_000, a, member("b", 1), member("c"), cause=cause, of="c")
    assert least <= found.best <= most


@pytest.mark.parametrize(("cause", "least", "most"), [("expiry", 5.4, 7.0), ("leave", 0.0, 4.0)])
def test_the_only_member_died_if_its_session_timed_out_while_another_one_joined(
    cause, least, most
) -> None:
    """The rebalance ends when its session times out, 6 s after its last heartbeat."""
    group = Group()
    group.generation(1_000, member("a", 0))
    for at in range(2_000, 6_000, 1_000):
        group.commit(at, 0)
    found = group.generation(11_500, member("b", 0), cause=cause)
    assert least <= found.best <= most


@pytest.mark.parametrize(("last_ms", "least", "most"), [(15_500, 0.15, 1.0), (4_000, 0.0, 0.01)])
def test_a_client_that_commits_without_polls_revokes_at_its_poll_timeout(
    last_ms, least, most
) -> None:
    """Its partition has no consumer from then on; another client owns it until it polls again."""
    group = Group("cooperative-sticky")
    group.generation(1_000, member("a", 0), member("b", 1))
    for at in range(1_500, 16_000, 500):
        group.commit(at, 1)
        group.commit(at, *(0,) * (at <= last_ms))
    found = group.generation(16_000, member("b", 0, 1, owned=(1,)), cause="poll")
    assert least <= found.best <= most


def test_owners_have_their_partitions_since_their_assignment() -> None:
    """Another member never had them; nothing is known of partitions without an owner."""
    group = Group()
    group.generation(1_000, member("a", 0), member("b", 1))
    owners = group.tracker.owners
    assert owners.owned_since("a", ("t", 0)) == pytest.approx(1_000, abs=100)
    assert owners.owned_since("a", ("t", 1)) == float("inf")
    assert owners.owned_since("a", ("t", 2)) == 0
    group.generation(5_000)
    assert owners.owned_since("a", ("t", 0)) == pytest.approx(1_000, abs=100)
    assert owners.owned_since("a", ("t", 1)) == float("inf")
