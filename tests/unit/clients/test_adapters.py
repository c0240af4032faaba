"""The thin sides of the plug-ins: what each client calls, and what comes back, without a broker."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace
from typing import ClassVar

import pytest
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment as AioAssignment
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as AioMetadata
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from partage.clients import aiokafka, assignor_class_state, kafka_python
from partage.clients.load_sampling import LoadSampler
from partage.clients.shared import ClusterView, Joined
from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.groups.api import PlainStrategy
from partage.groups.registry import find
from partage.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)


class Metadata:
    """What assignors ask of a client's cluster: three partitions on racks a, b, a."""

    _partitions: ClassVar = {"t": {p: SimpleNamespace(replicas=[1 + p % 2]) for p in range(3)}}

    def partitions_for_topic(self, topic):
        return set(self._partitions[topic]) if topic in self._partitions else None

    def brokers(self):
        racks = {1: "a", 2: "b"}.items()
        return [SimpleNamespace(nodeId=i, node_id=i, host="", port=0, rack=r) for i, r in racks]


class KafkaPython(ConsumerCoordinator):
    """Calls an assignor as kafka-python's coordinator does; the methods' names are its own."""

    def __init__(self, kind, *, cooperative=False, owned=()):
        self.kind = kind
        self.config = {"group_id": "billing"}
        self._generation = SimpleNamespace(generation_id=4)
        self._rebalance_protocol = RebalanceProtocol(int(cooperative))
        pairs = [SimpleNamespace(topic=t, partition=p) for t, p in owned]
        self._subscription = SimpleNamespace(assigned_partitions=lambda: pairs)

    def __del__(self):
        pass

    def group_protocols(self):
        return self.kind.metadata({"t"})

    def _perform_assignment(self, leader_id, protocol, members):
        return self.kind.assign(Metadata(), {m[0]: None for m in members})

    def whole(self, members):
        return self.kind.assign(Metadata(), members)

    def _on_join_complete(self, generation, assignment):
        self.kind.on_assignment(assignment)


class Aio(GroupCoordinator):
    """Calls an assignor as aiokafka's coordinator does."""

    def __init__(self, kind):
        self.kind, self.group_id, self.generation = kind, "billing", 4
        self._subscription = SimpleNamespace()
        self.member_id, self._metadata_snapshot, self.rejoins = "x1", {"t": 2}, 0

    def request_rejoin(self):
        self.rejoins += 1

    def _lookup_assignor(self, name):
        return self.kind

    def _perform_assignment(self, response):
        assert type(response) is SimpleNamespace  # aiokafka 0.10 looks at the class
        lossy = {m[0]: AioMetadata.decode(m[-1]) for m in response.members}
        self.decoded = [*getattr(self, "decoded", ()), *lossy]
        return self.kind.assign(Metadata(), lossy)

    def _on_join_complete(self, generation, assignment):
        self.kind.on_assignment(assignment)


class AioRebalance(CoordinatorGroupRebalance):
    def __init__(self, coordinator):
        self._coordinator, self.group_id = coordinator, "billing"

    def perform_group_join(self):
        return self._coordinator.kind.metadata({"t"})


def _static():
    """Two members whose order by instance id is not that by member id; racks b and a."""
    return [
        ("x1", "i-2", encode_subscription(["t"], rack="b", generation=3)),
        ("x2", "i-1", encode_subscription(["t"], rack="a", generation=3)),
    ]


@pytest.mark.parametrize("client", ["kafka-python 2", "kafka-python 3", "aiokafka"])
def test_a_leader_sees_static_members_and_racks(client: str) -> None:
    """What the client cuts off is there again: the plan is Java's for static members and racks."""
    rows = _static()
    if client == "aiokafka":
        sent = Aio(aiokafka.assignor("range"))._perform_assignment(SimpleNamespace(members=rows))
    elif client == "kafka-python 2":
        sent = KafkaPython(kafka_python.assignor("range"))._perform_assignment("x1", "range", rows)
    else:
        members = [
            SimpleNamespace(
                member_id=i, group_instance_id=s, metadata=ConsumerProtocolSubscription.decode(m)
            )
            for i, s, m in rows
        ]
        sent = KafkaPython(kafka_python.assignor("range")).whole(members)
    got = {m: decode_assignment(d).partitions for m, d in sent.items()}
    assert got == {"x2": (("t", 0), ("t", 2)), "x1": (("t", 1),)}


def test_kafka_python_sends_java_s_sticky_user_data() -> None:
    """After an assignment: claims and generation, no two bytes before them, as bytes."""
    kind = kafka_python.assignor("sticky", rack="a")
    one = KafkaPython(kind)
    data = encode_assignment([("t", 2), ("t", 0)])
    one._on_join_complete(4, ConsumerProtocolAssignment.decode(data))
    said = decode_subscription(one.group_protocols())
    assert said.user_data == encode_sticky_user_data([("t", 2), ("t", 0)], 4)
    assert (said.version, said.generation, said.rack, said.owned) == (3, 4, "a", ())


def test_aiokafka_learns_the_generation() -> None:
    """Aiokafka never tells it; the sticky user data have it all the same."""
    kind = aiokafka.assignor("sticky")
    one = Aio(kind)
    data = encode_assignment([("t", 1)])
    one._on_join_complete(9, AioAssignment.decode(data))
    said = decode_subscription(AioRebalance(one).perform_group_join())
    assert said.user_data == encode_sticky_user_data([("t", 1)], 9)


def test_kafka_python_2_tells_the_generation_afterwards() -> None:
    """Without a frame to look at, an assignor named sticky still gets its generation."""
    kind = kafka_python.assignor("sticky")
    kind.on_assignment(ConsumerProtocolAssignment.decode(encode_assignment([("t", 1)])))
    kind.on_generation_assignment(6)
    assert decode_subscription(kind.metadata(["t"])).user_data == encode_sticky_user_data(
        [("t", 1)], 6
    )


def test_cooperative_members_say_what_they_own() -> None:
    """kafka-python 3 in COOPERATIVE: owned partitions, sorted; in EAGER none."""
    owned = [("t", 2), ("t", 0)]
    kind = kafka_python.assignor("cooperative-sticky")
    assert kind.supported_protocols() == [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
    said = decode_subscription(KafkaPython(kind, cooperative=True, owned=owned).group_protocols())
    assert said.owned == (("t", 0), ("t", 2))
    said = decode_subscription(
        KafkaPython(kafka_python.assignor("cooperative-sticky"), owned=owned).group_protocols()
    )
    assert said.owned == ()


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_one_class_in_two_consumers_is_an_error(client: str) -> None:
    """The second consumer of a class gets an error; the first goes on; two classes have two histories."""
    ours = kafka_python if client == "kafka-python" else aiokafka
    kind = ours.assignor("sticky")

    def joins(kind):
        if client == "aiokafka":
            made = Aio(kind)
            return made, AioRebalance(made).perform_group_join
        made = KafkaPython(kind)
        return made, made.group_protocols

    first, join = joins(kind)
    join()
    second, join_too = joins(kind)
    with pytest.raises(InvalidConfigError, match=r"call assignor\(\.\.\.\) again"):
        join_too()
    join()
    assert ours.assignor("sticky")._state is not kind._state
    assert first is not second


@pytest.mark.parametrize("name", ["cooperative-sticky", "librdkafka:cooperative-sticky"])
def test_what_a_client_cannot_do_is_said_at_once(name: str) -> None:
    """Aiokafka revokes everything: a cooperative class of others is an error, unless asked for."""
    with pytest.raises(InvalidConfigError, match="aiokafka revokes all"):
        aiokafka.assignor(name)
    assert aiokafka.assignor(name, eager=True).name == name
    with pytest.raises(InvalidConfigError, match="share groups"):
        kafka_python.assignor("server:simple")
    with pytest.raises(UnknownStrategyError):
        aiokafka.assignor("stikcy")
    with pytest.raises(InvalidConfigError, match="no such option"):
        kafka_python.assignor("range", weights="lag")


class Broken(PlainStrategy):
    name = "broken"

    def assign(self, problem, memory=None):
        raise ZeroDivisionError("oh")


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_a_broken_strategy_is_named_and_paced(client: str, monkeypatch) -> None:
    """The client's own kind of error names all three; joining again waits, longer each time."""
    clock = SimpleNamespace(monotonic=lambda: 100.0, perf_counter=lambda: 0.0)
    monkeypatch.setattr(assignor_class_state, "time", clock)
    ours = kafka_python if client == "kafka-python" else aiokafka
    kind = ours.assignor("range")
    kind._state.consumer.strategy = Broken()
    leader = KafkaPython(kind) if client == "kafka-python" else Aio(kind)
    lead = (
        (lambda: leader._perform_assignment("x1", "broken", _static()))
        if client == "kafka-python"
        else (lambda: leader._perform_assignment(SimpleNamespace(members=_static())))
    )
    pauses = []
    for _ in range(6):
        with pytest.raises(
            ours.KafkaError, match="broken failed in group billing, generation 4: Zero"
        ):
            lead()
        pauses.append(kind._state.rejoin_delay())
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    with pytest.raises(ours.AssignorError) as caught:
        lead()
    assert (caught.value.strategy, caught.value.group, caught.value.generation) == (
        "broken",
        "billing",
        4,
    )
    # aiokafka copies the error that it hands to who waits; programs may pickle it.
    for again in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):  # noqa: S301 - ours
        assert str(again) == str(caught.value)
    if client == "aiokafka":
        # An event loop must not sleep: the next join fails at once, without a word to the broker.
        with pytest.raises(aiokafka.AssignorError, match="joins again in"):
            AioRebalance(leader).perform_group_join()


def test_a_sampler_measures_what_comes_and_what_was_not_read() -> None:
    """What arrives by the ends of the log, where they are known, else what was read; lag now; a
    reader that was set back starts anew; partitions that are gone are forgotten.
    """
    speed, lag = LoadSampler("throughput"), LoadSampler("lag")
    for one in (speed, lag):
        one.add_sample(({("t", 0): 100, ("t", 1): 7, ("t", 2): 5}, {("t", 0): 150}), now=10.0)
        one.add_sample(({("t", 0): 300, ("t", 1): 3, ("t", 2): 25}, {("t", 0): 450}), now=20.0)
    assert speed.partition_loads() == {("t", 0): 30.0, ("t", 2): 2.0}
    assert lag.partition_loads() == {("t", 0): 150.0}
    speed.add_sample(({}, {}), now=30.0)
    assert speed.partition_loads() == {}
    speed.add_sample(({("t", 0): 900}, {("t", 0): 990}), now=40.0)
    assert speed.partition_loads() == {}


def test_a_sampler_sees_what_is_hot_now() -> None:
    """A week at an even rate, then a minute in which one partition has all: that minute counts."""
    sampler = LoadSampler("throughput", window=60.0)
    now, ends = 0.0, [0, 0]

    def look() -> None:
        at = {("t", p): end for p, end in enumerate(ends)}
        sampler.add_sample((at, at), now=now)

    for _ in range(5000):
        look()
        now, ends = now + 120.0, [end + 12_000 for end in ends]
    for _ in range(31):
        look()
        now, ends[0] = now + 2.0, ends[0] + 2_000
    loads = sampler.partition_loads()
    assert loads["t", 0] == pytest.approx(1000, rel=0.1)
    assert loads["t", 1] == 0
    assert len(sampler._samples) < 40


def test_a_sampler_outlives_a_look_that_fails() -> None:
    """The client changes its tables while they are read: the next look counts."""
    sampler, looks = (
        LoadSampler("lag", seconds=0.01),
        iter([ValueError("changed"), ({("t", 0): 1}, {("t", 0): 4}), None]),
    )

    def read():
        one = next(looks)
        if isinstance(one, Exception):
            raise one
        return one

    sampler.start_sampling(read)
    sampler._thread.join(timeout=10)
    assert sampler.partition_loads() == {("t", 0): 3.0}


@pytest.mark.parametrize("fails", [False, True])
def test_the_leader_s_own_look_decides_weights_and_may_fail(fails: bool, caplog) -> None:
    """Loads by (topic, partition) from a function of the user's; one that raises costs a warning."""

    def look():
        if fails:
            raise OSError("no broker")
        return {("t", 0): 10.0, ("t", 1): 1.0, ("t", 2): 1.0}

    kind = kafka_python.assignor("optimal", weights=look)
    rows = [(m, None, encode_subscription(["t"])) for m in ("x1", "x2")]
    sent = KafkaPython(kind)._perform_assignment("x1", "optimal", rows)
    heavy = [decode_assignment(d).partitions for d in sent.values()]
    assert sorted(p for mine in heavy for _, p in mine) == [0, 1, 2]
    assert ("weights() failed" in caplog.text) is fails
    if not fails:
        assert (("t", 0),) in heavy


@pytest.mark.parametrize(
    "wrong",
    [{("t", 0): "many"}, {("t", 0): None}, {("t", 0): -1.0}, {("t", 0): float("nan")},
     {("t", 0): 1e300}, {"t": 1.0}, {("t", "0"): 1.0}, {("t", 0): 1.0, None: 2.0}, 7, None],
)  # fmt: skip
def test_a_load_function_that_returns_no_loads_costs_its_weights_only(wrong, caplog) -> None:
    """Values that are no numbers from 0 on, and keys that are no partitions, give one warning and the
    plan without weights; the member does not fail and join again.
    """
    rows = [(m, None, encode_subscription(["t"])) for m in ("x1", "x2")]
    kind = kafka_python.assignor("optimal", weights=lambda: wrong)
    sent = KafkaPython(kind)._perform_assignment("x1", "optimal", rows)
    by_counts = kafka_python.assignor("optimal", weights=dict)
    assert sent == KafkaPython(by_counts)._perform_assignment("x1", "optimal", rows)
    assert len(caplog.records) == 1
    assert "group billing: " in caplog.text
    if isinstance(wrong, dict):
        assert "weights() returned" in caplog.text
    assert kind._state.rejoin_delay() == 0


def test_a_load_function_keeps_the_weights_of_before_when_it_returns_garbage() -> None:
    """The rebalance after a good one plans with the weights of that one."""
    answers = [{("t", 0): 10.0, ("t", 1): 1.0, ("t", 2): 1.0}, {("t", 0): "hot"}]
    rows = [(m, None, encode_subscription(["t"])) for m in ("x1", "x2")]
    kind = kafka_python.assignor("optimal", weights=lambda: answers.pop(0))
    one = KafkaPython(kind)
    first = one._perform_assignment("x1", "optimal", rows)
    assert one._perform_assignment("x1", "optimal", rows) == first
    assert not answers


@pytest.mark.parametrize("ours", [kafka_python, aiokafka])
def test_a_wrong_argument_of_assignor_is_named(ours) -> None:
    """A misspelt measure lists the valid words; a rack that is no text and a strategy that is no name
    fail when the class is made.
    """
    with pytest.raises(InvalidConfigError, match=r"'throughput' or 'lag'.*mean 'throughput'\?"):
        ours.assignor("optimal", weights="througput")
    with pytest.raises(InvalidConfigError, match="no such option"):
        ours.assignor("range", weights="througput")
    with pytest.raises(InvalidConfigError, match="setting rack: must be text"):
        ours.assignor("range", rack=3)
    for wrong in (None, 3, Broken, ["sticky"]):
        with pytest.raises(InvalidConfigError, match="must be the name of a strategy"):
            ours.assignor(wrong)
    with pytest.raises(InvalidConfigError, match=r'\[assignor\("sticky"\), assignor\("range"\)\]'):
        ours.assignor("sticky, range")
    assert ours.assignor("optimal", weights='{"t": 2}').name == "optimal"


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_an_assignor_in_a_wrong_form_is_named(client: str) -> None:
    """The factory uncalled and a class in place of a list say what to write; each client passes the
    error on.
    """
    ours = kafka_python if client == "kafka-python" else aiokafka
    for ask in (lambda: ours.assignor.name, lambda: ours.assignor.metadata({"t"}), ours.assignor):
        with pytest.raises(InvalidConfigError, match=r"write \[assignor\(.*not \[assignor\]"):
            ask()
    with pytest.raises(
        InvalidConfigError, match=r"must be a list.*\[assignor\(\.\.\.\)\]"
    ) as caught:
        list(ours.assignor("sticky"))
    if client == "aiokafka":
        assert isinstance(copy.copy(caught.value), aiokafka.KafkaError)
    assert ours.assignor.__name__ == "assignor"


def test_consumers_refuse_assignors_in_a_wrong_form() -> None:
    """kafka-python 3 refuses each wrong form while the consumer is made, before it asks a broker."""

    def made(strategies):
        return kafka_python.KafkaConsumer(
            bootstrap_servers="localhost:1", group_id="g", api_version=(2, 4),
            partition_assignment_strategy=strategies,
        )  # fmt: skip

    for wrong, said in (
        (kafka_python.assignor("sticky"), "must be a list"),
        ([kafka_python.assignor], "not .assignor."),
        (kafka_python.assignor, "not .assignor."),
        ([aiokafka.assignor("sticky")], "take assignor from partage.clients.kafka_python"),
    ):
        with pytest.raises(InvalidConfigError, match=said):
            made(wrong)


def test_aiokafka_refuses_a_class_made_for_kafka_python() -> None:
    """The class notices aiokafka's frame in its first call and names the right module."""
    source = "def join(kind):\n    return kind.metadata({'t'})\n"
    frame = {"__name__": "aiokafka.consumer.group_coordinator"}
    exec(source, frame)  # noqa: S102 - a caller whose module is aiokafka's
    with pytest.raises(InvalidConfigError, match=r"take assignor from partage\.clients\.aiokafka"):
        frame["join"](kafka_python.assignor("sticky"))


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_an_assignment_that_the_broker_made_is_logged_once(client: str, caplog) -> None:
    """`optimal` in a KIP-848 group: the broker assigns without user data, which gives one warning; an
    assignment of a Partage leader gives none.
    """
    ours = kafka_python if client == "kafka-python" else aiokafka
    decode = ConsumerProtocolAssignment if client == "kafka-python" else AioAssignment
    kind = ours.assignor("optimal")
    one = KafkaPython(kind) if client == "kafka-python" else Aio(kind)
    rows = [("x1", None, encode_subscription(["t"]))]
    by_leader = (
        one._perform_assignment("x1", "optimal", rows)
        if client == "kafka-python"
        else one._perform_assignment(SimpleNamespace(members=rows))
    )["x1"]
    one._on_join_complete(4, decode.decode(by_leader))
    assert not caplog.records
    by_broker = encode_assignment([("t", 1)])
    for generation in (5, 6):
        one._on_join_complete(generation, decode.decode(by_broker))
    assert len(caplog.records) == 1
    assert "group billing generation 5: the broker assigned" in caplog.text
    sticky = ours.assignor("sticky")
    other = KafkaPython(sticky) if client == "kafka-python" else Aio(sticky)
    other._on_join_complete(5, decode.decode(by_broker))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_a_join_after_an_interrupted_sync_has_the_generation_of_its_user_data(client: str) -> None:
    """The coordinator has answered JoinGroup and the assignment has not come: a member that joins again
    sends the generation and the claims of the last assignment, or none of both; outside its group
    it sends no generation.
    """
    if client == "kafka-python":
        one = KafkaPython(kafka_python.assignor("sticky"))
        decode, join = ConsumerProtocolAssignment.decode, one.group_protocols

        def answered(generation):
            one._generation.generation_id = generation

    else:
        one = Aio(aiokafka.assignor("sticky"))
        decode, join = AioAssignment.decode, AioRebalance(one).perform_group_join

        def answered(generation):
            one.generation = generation

    answered(1)
    said = decode_subscription(join())
    assert (said.generation, said.user_data) == (None, None)
    one._on_join_complete(1, decode(encode_assignment([("t", 1)])))
    answered(2)
    said = decode_subscription(join())
    assert (said.generation, said.user_data) == (1, encode_sticky_user_data([("t", 1)], 1))
    answered(-1)
    assert decode_subscription(join()).generation is None


def test_a_leader_reads_its_metadata_once() -> None:
    """Until the client has other metadata, topics or racks, the view and its cluster are the same."""
    state = assignor_class_state.create_state(
        "range", client="a", cooperative=False, rack=None, eager=False
    )
    metadata, racks = Metadata(), {1: "a", 2: "b"}

    def view(topics=("t",), racks=racks):
        return state.view_of(metadata, topics, lambda row: row.replicas, racks)

    first = view()
    assert view() is first
    assert view().cluster() is first.cluster()
    assert view(racks={1: "a"}).racks == {1: "a"}
    assert view(topics=("t", "u")) is first  # the metadata do not have u
    again = view()
    metadata._partitions = {"t": dict(metadata._partitions["t"])}
    assert view() is again  # refreshed metadata that say the same
    metadata._partitions = {"t": {0: SimpleNamespace(replicas=[1])}}
    assert view().topics == {"t": {0: [1]}}


def _response(members):
    return SimpleNamespace(members=members, group_protocol="range")


class AsyncAio(Aio):
    """Calls an assignor in a coroutine, as aiokafka's coordinator does."""

    async def _perform_assignment(self, response):
        return super()._perform_assignment(response)


class CopyingAio(Aio):
    """Copies the dict of assignments in the coroutine, as aiokafka 0.10 does."""

    async def _perform_assignment(self, response):
        return dict(super()._perform_assignment(response).items())


class WaitsForTheLoop(PlainStrategy):
    """Plans as range does, once the event loop has run."""

    name = "waits"

    def __init__(self):
        self.has_run = threading.Event()

    def assign(self, problem, memory=None):
        assert self.has_run.wait(timeout=20)
        return find("range").assign(problem)


@pytest.mark.parametrize("coordinator", [AsyncAio, CopyingAio])
def test_an_event_loop_runs_while_aiokafka_s_leader_plans(coordinator) -> None:
    """A thread computes the plan; the user's load function is still called on the event loop."""
    callers = []
    kind = aiokafka.assignor("optimal", weights=lambda: callers.append(threading.get_ident()) or {})
    kind._state.consumer.strategy = strategy = WaitsForTheLoop()
    kind._state.consumer.loads = None
    leader = coordinator(kind)

    async def rebalance():
        AioRebalance(leader).perform_group_join()
        AioRebalance(leader).perform_group_join()  # a second join changes nothing
        asyncio.get_running_loop().call_later(0.01, strategy.has_run.set)
        return await leader._perform_assignment(_response(_static()))

    sent = asyncio.run(rebalance())
    expected = Aio(aiokafka.assignor("range"))._perform_assignment(
        SimpleNamespace(members=_static())
    )
    assert sent == expected
    assert callers == [threading.get_ident()]


def test_what_changes_while_a_leader_plans_is_not_lost() -> None:
    """SyncGroup has the ids of the JoinGroup response, and new metadata lead to another rebalance."""
    kind = aiokafka.assignor("range")
    kind._state.consumer.strategy = strategy = WaitsForTheLoop()
    leader = AsyncAio(kind)

    def reset():
        leader.generation, leader.member_id, leader._metadata_snapshot = -1, "", {"t": 3}
        strategy.has_run.set()

    async def rebalance():
        AioRebalance(leader).perform_group_join()
        asyncio.get_running_loop().call_later(0.01, reset)
        await leader._perform_assignment(_response(_static()))
        sent = leader.generation, leader.member_id, leader.rejoins
        await asyncio.sleep(0)
        return sent, leader.rejoins

    assert asyncio.run(rebalance()) == ((4, "x1", 0), 1)


def test_aiokafka_decodes_each_distinct_subscription_once() -> None:
    """Only topics matter to it; the plan is that of all members. A damaged one is not left out."""
    rows = [
        ("x1", None, encode_subscription(["t"])),
        ("x2", None, encode_subscription(["t"], user_data=b"more")),
        ("x3", None, encode_subscription(["t", "u"])),
    ]
    leader = AsyncAio(aiokafka.assignor("range"))

    async def rebalance(members):
        AioRebalance(leader).perform_group_join()
        return await leader._perform_assignment(_response(members))

    sent = asyncio.run(rebalance(rows))
    assert leader.decoded == ["x1", "x3"]  # and nothing twice
    expected = Aio(aiokafka.assignor("range"))._perform_assignment(_response(rows))
    assert sent == expected
    with pytest.raises(ValueError, match="attempting to convert"):
        asyncio.run(rebalance([*rows, ("x4", None, rows[1][2][:7])]))


def test_the_assignor_of_another_library_gets_all_subscriptions(monkeypatch) -> None:
    """A group may agree on the other assignor of the consumer's list, which needs all members."""
    leader = AsyncAio(aiokafka.assignor("range"))
    monkeypatch.setattr(leader, "_lookup_assignor", lambda _: RoundRobinPartitionAssignor)

    async def rebalance():
        AioRebalance(leader).perform_group_join()
        return await leader._perform_assignment(_response(_static()))

    asyncio.run(rebalance())
    assert leader.decoded == ["x1", "x2"]


def test_an_error_in_the_thread_of_a_plan_reaches_aiokafka() -> None:
    """The coordinator gets the error that it would get from a plan on the event loop."""
    kind = aiokafka.assignor("range")
    kind._state.consumer.strategy = Broken()
    leader = AsyncAio(kind)

    async def rebalance():
        AioRebalance(leader).perform_group_join()
        await leader._perform_assignment(_response(_static()))

    with pytest.raises(aiokafka.AssignorError, match="broken failed in group billing"):
        asyncio.run(rebalance())
    assert kind._state.rejoin_delay() > 0


def test_kernels_are_warmed_where_plans_take_long(monkeypatch) -> None:
    """A thread compiles kernels once an assignor has weights, or its leader has planned much."""
    started: list[int] = []
    monkeypatch.setattr(assignor_class_state, "start_warm_up", lambda: started.append(1))

    def state(name, **options):
        return assignor_class_state.create_state(
            name, client="a", cooperative=True, rack=None, eager=False, **options
        )

    small = state("sticky")
    member = [Joined("c", encode_subscription(["t"]))]
    small.assign_as_leader(member, ClusterView({"t": {0: [1]}}), group="g", generation=1)
    assert not started
    state("optimal", weights="lag")
    assert len(started) == 1
    many = ClusterView({"t": {p: [1] for p in range(50_000)}})
    small.assign_as_leader(member, many, group="g", generation=2)
    assert len(started) == 2


def test_a_leader_without_false_claims_imports_nothing() -> None:
    """The first plan of a leader imports no module of NumPy, which would hold the event loop."""
    program = """
        import sys
        from partage.clients.shared import ClusterView, Consumer, Joined
        from partage.groups.registry import find
        from partage.wire.consumer_protocol import encode_subscription
        view = ClusterView({"t": {p: [1] for p in range(9)}})
        for name in ("sticky", "cooperative-sticky", "optimal"):
            consumer = Consumer(find(name))
            owned = [("t", p) for p in range(9)]
            sent = [encode_subscription(["t"], owned=owned, generation=1), encode_subscription(["t"])]
            consumer.assign([Joined(f"c{i}", one) for i, one in enumerate(sent)], view)
        print("numpy.ma" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
