"""The problems of bench_peers.py, and ours in numbers from their JSON."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

import partage as pg
from partage.clients.shared import ClusterView, Joined
from partage.groups.server.spec import derive_topic_id
from partage.model import Broker, Claims, Index
from partage.wire.consumer_protocol import encode_sticky_user_data, encode_subscription
from partage.wire.member_extras import Extras, append_trailer

Spec = dict[str, Any]
GENERATION = 7


@dataclass(frozen=True)
class Row:
    """One line of the table: a problem under a strategy, and who is asked.

    ``goal`` is in seconds. ``go`` is franz-go's balancer to set beside it, None for none;
    ``java`` likewise. ``clients``: whether the two Python clients end within a minute.
    """

    name: str
    make: Any
    strategy: str
    goal: float | None = None
    java: str | None = ""
    go: str | None = ""
    clients: bool = False
    always: bool = False
    separate: bool = False
    wire: bool = False
    built: bool = False

    @property
    def counts(self) -> str:
        """Which of our times counts: from separate strings, from a `Group`, or from names."""
        return "separate_nanos" if self.separate else "built_nanos" if self.built else "nanos"

    def problem(self) -> Spec:
        """The problem in JSON's terms, claims included."""
        spec: Spec = self.make(self.strategy)
        return {**spec, "strategy": self.strategy, "separate": self.separate, "wire": self.wire}


def names_of(prefix: str, count: int) -> list[str]:
    """``prefix`` and a number."""
    return [f"{prefix}{i}" for i in range(count)]


def spec_of(topics: list[str], each: int, members: list[Spec], subscriptions: list[Any]) -> Spec:
    """A problem; topic ids are those that ours derives from names, so Java's map order is ours."""
    ids = [base64.urlsafe_b64encode(derive_topic_id(name)).decode().rstrip("=") for name in topics]
    return {
        "topics": [[name, each, one] for name, one in zip(topics, ids, strict=True)],
        "subscriptions": subscriptions,
        "members": members,
    }


def grid(members: int, topics: int, each: int, *, odd: bool = False, racks: int = 0) -> Spec:
    """Everybody subscribes to everything; with ``odd`` the last member lacks the last topic."""
    people = [{"id": name, "subscription": 0} for name in names_of("member-", members)]
    whole = list(range(topics))
    if odd:
        people[-1]["subscription"] = 1
    if racks:
        people = [{**one, "rack": f"rack{i % racks}"} for i, one in enumerate(people)]
    names = [f"topic-{i:05}" for i in range(topics)]
    spec = spec_of(names, each, people, [whole, whole[:-1]] if odd else [whole])
    return {**spec, "racks": racks, "copies": 2} if racks else spec


def kept(spec: Spec, strategy: str, *, generation: int | None = GENERATION) -> list[Spec]:
    """Its members with the claims that a first plan of the strategy leaves them with."""
    group, cluster = group_of(spec), cluster_of(spec)
    plan = pg.assign(strategy, group, cluster)
    topic, number = cluster.index.topic_of[plan.partition], cluster.index.number_of[plan.partition]
    out = []
    for m, one in enumerate(spec["members"]):
        a, b = plan.start[m : m + 2]
        owned = np.stack([topic[a:b], number[a:b]], axis=1).reshape(-1).tolist()
        more: Spec = {"owned": owned}
        if generation is not None:
            more["generation"] = generation
        if strategy == "sticky":
            pairs = [
                (cluster.index.topics[t], p) for t, p in zip(owned[::2], owned[1::2], strict=True)
            ]
            data = encode_sticky_user_data(pairs, generation or 0)
            more["user_data"] = base64.b64encode(data).decode()
        out.append({**one, **more})
    return out


@lru_cache(maxsize=1)
def _known(members: int, topics: int, each: int, strategy: str) -> tuple[Spec, list[Spec]]:
    spec = grid(members, topics, each)
    return spec, kept(spec, strategy)


def leaves(members: int, topics: int, each: int, strategy: str) -> Spec:
    """The member in the middle is gone."""
    spec, people = _known(members, topics, each, strategy)
    gone = members // 2
    return {**spec, "members": people[:gone] + people[gone + 1 :]}


def joins(members: int, topics: int, each: int, strategy: str) -> Spec:
    """One more member."""
    spec, people = _known(members, topics, each, strategy)
    return {**spec, "members": [*people, {"id": "member-new", "subscription": 0}]}


def jmh(cell: Cell) -> Spec:
    """A cell of Kafka's own benchmarks (ClientSide- and ServerSideAssignorBenchmark).

    INCREMENTAL is what it says: the new member is in the map that is timed, which Kafka's
    client-side benchmark forgets.
    """
    members, ratio, topics, strategy, mixed, more, racks = cell
    names = names_of("topic-" if strategy.startswith("server:") else "topic", topics)
    each = members * ratio // topics
    buckets = min(5, members) if mixed else 1
    wide, high = math.ceil(topics / buckets), math.ceil(members / buckets)
    subscriptions = [list(range(topics))[k * wide : (k + 1) * wide] for k in range(buckets)]
    people: list[Spec] = [
        {
            "id": f"member{i}",
            "subscription": i // high,
            **({"rack": f"rack{i % 3}"} if racks else {}),
        }
        for i in range(members)
    ]
    layout = {"racks": 3, "copies": 3} if racks else {}
    if not more:
        return {**spec_of(names, each, people, subscriptions), **layout}
    old = {**spec_of(names, each, people[:-1], subscriptions), **layout}
    new = {**people[-1], "id": "newMember"}
    return {**old, "members": [*kept(old, strategy, generation=None), new]}


def cluster_of(spec: Spec) -> pg.Cluster:
    """The cluster, from columns: a list of racks for each of a million partitions takes seconds."""
    index = Index.of([(name, one, count) for name, count, one in spec["topics"]])
    racks = spec.get("racks", 0)
    copies = spec["copies"] if racks else 1
    many = index.partitions
    replica = index.number_of[:, None] + np.arange(copies, dtype=np.int32)
    replica = (replica % max(racks, 1)).astype(np.int32)
    brokers = tuple(Broker(i, f"rack{i}" if racks else None) for i in range(max(racks, 1)))
    start = np.arange(many + 1, dtype=np.int32) * np.int32(copies)
    there = np.ones(many, bool), replica[:, 0].copy()
    return pg.Cluster(
        index, np.ones(len(index.topics), bool), *there, start, replica.reshape(-1), brokers
    )


def claims_of(names: tuple[str, ...], topic: Any, partition: Any) -> Claims:
    """Claims by the column; their names are the member's own, as they come up."""
    known, first, place = np.unique(topic, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    mine = tuple(names[t] for t in known[order].tolist())
    return Claims(mine, rank[place].astype(np.int32), partition)


def sent_by(spec: Spec) -> list[dict[str, Any]]:
    """What each member says besides its topics, as `Member` takes it."""
    topics = tuple(name for name, *_ in spec["topics"])
    out = []
    for one in spec["members"]:
        more: dict[str, Any] = {"rack": one.get("rack")}
        if "user_data" in one:
            more["user_data"] = base64.b64decode(one["user_data"])
        if one.get("owned"):
            columns = np.array(one["owned"], np.int32).reshape(-1, 2).T.copy()
            more["owned"] = claims_of(topics, columns[0], columns[1])
            more["generation"] = one.get("generation", -1)
        out.append(more)
    return out


def lists_of(spec: Spec, *, separate: bool) -> list[list[str]]:
    """A list of names a member: one for all that subscribe alike, or strings of their own."""
    made = [[spec["topics"][t][0] for t in one] for one in spec["subscriptions"]]
    if not separate:
        return [made[one["subscription"]] for one in spec["members"]]
    return [[(" " + name)[1:] for name in made[one["subscription"]]] for one in spec["members"]]


def group_of(spec: Spec, *, claims: bool = True) -> pg.Group:
    """The group with all that its members claim, in both forms."""
    rows = zip(spec["members"], lists_of(spec, separate=False), sent_by(spec), strict=True)
    return pg.Group(
        pg.Member(m["id"], names, **(more if claims else {})) for m, names, more in rows
    )


def joined_of(spec: Spec) -> list[Joined]:
    """The members with the bytes that they send; `optimal` sends its claims as an EAGER member."""
    cooperative = spec["strategy"] == "cooperative-sticky"
    out = []
    for one, names, more in zip(
        spec["members"], lists_of(spec, separate=False), sent_by(spec), strict=True
    ):
        owned = list(more.get("owned", ()))
        generation, data = more.get("generation", -1), more.get("user_data")
        if cooperative:
            data = generation.to_bytes(4, "big", signed=True)
        elif spec["strategy"] == "optimal":
            data = append_trailer(None, Extras(tuple(owned), generation))
        sent = encode_subscription(
            names, user_data=data, owned=owned if cooperative else (), generation=generation,
            rack=more["rack"],
        )  # fmt: skip
        out.append(Joined(one["id"], sent))
    return out


def view_of(spec: Spec) -> ClusterView:
    """The metadata of a leader."""
    return ClusterView({name: {p: [1] for p in range(n)} for name, n, _ in spec["topics"]})


U1 = (2000, 2000, 500)
LARGE = (500, 400, 500)
MEDIUM = (100, 100, 100)
#: Goals of a plan from a built `Group`, in seconds.
SMALL = (("12 x 3", (3, 1, 12), 40e-6), ("1,000 x 10", (10, 10, 100), 100e-6))
SMALL_STRATEGIES = ("sticky", "cooperative-sticky", "range", "server:uniform", "optimal")
#: Goals from bytes to bytes, in seconds, with compiled kernels.
WIRE = (("10,000 x 100", MEDIUM, 0.006), ("200,000 x 500", LARGE, 0.15), ("U1", U1, 0.6))


def main_rows() -> list[Row]:
    """The problems of the goals' table."""

    def u1(**more: Any) -> Any:
        return lambda _: grid(*U1, **more)

    def u1_leaves(strategy: str) -> Spec:
        return leaves(*U1, strategy)

    def u1_joins(strategy: str) -> Spec:
        return joins(*U1, strategy)

    small: dict[str, Any] = {"clients": True, "always": True}
    return [
        Row("U1 fresh", u1(), "sticky", 0.06, always=True),
        Row("U1 fresh, separate lists", u1(), "sticky", 0.06, separate=True),
        Row("U1 fresh", u1(), "server:uniform", 0.03, go=None, always=True),
        Row("U1 fresh", u1(), "cooperative-sticky", 0.07, always=True),
        Row("U1 fresh", u1(), "range", 0.03),
        Row("U1 fresh", u1(), "server:range", None, go=None),
        Row("U1 fresh", u1(), "roundrobin", 0.10),
        Row("U1 one leaves", u1_leaves, "sticky", 0.10, always=True),
        Row("U1 one joins", u1_joins, "sticky", 0.10),
        Row("U1 one leaves", u1_leaves, "server:uniform", 0.10, go=None),
        Row("U1 one joins", u1_joins, "server:uniform", 0.10, go=None),
        Row("U1 one odd subscriber", u1(odd=True), "sticky", 0.5),
        Row("U1 one odd subscriber", u1(odd=True), "server:uniform", 0.3, go=None),
        Row("U1 one odd subscriber", u1(odd=True), "optimal", 0.25, java=None, go="sticky"),
        Row("U1 racks", u1(racks=3), "sticky", 0.5, go=None),
        *(
            Row(f"{name} fresh, from a Group", lambda _, size=size: grid(*size), strategy, goal,
                java=None if strategy == "optimal" else "",
                go={"server:uniform": None, "optimal": "sticky"}.get(strategy, ""),
                always=True, built=True)
            for name, size, goal in SMALL
            for strategy in SMALL_STRATEGIES
        ),
        *(
            Row(f"10,000 x 100 {name}, from a Group", make, "server:uniform", go=None, built=True)
            for name, make in (
                ("fresh", lambda _: grid(*MEDIUM)),
                ("one leaves", lambda s: leaves(*MEDIUM, s)),
                ("one joins", lambda s: joins(*MEDIUM, s)),
            )
        ),
        Row("10,000 x 100 fresh", lambda _: grid(*MEDIUM), "sticky", 0.0015, **small),
        Row("10,000 x 100 one leaves", lambda s: leaves(*MEDIUM, s), "sticky", 0.002, **small),
        *(
            Row(f"{name} wire, one leaves", partial(leaves, *size), strategy, goal,
                java=None, go="sticky" if strategy == "optimal" else "", always=size is MEDIUM,
                wire=True)
            for name, size, goal in WIRE
            for strategy in ("sticky", "cooperative-sticky", "optimal")
        ),
    ]  # fmt: skip


class Cell(NamedTuple):
    """A cell of Kafka's grid, in its own order of parameters."""

    members: int
    ratio: int
    topics: int
    strategy: str
    mixed: bool
    more: bool
    racks: bool = False


NAMED_CELLS = [
    Cell(10000, 10, 1000, "cooperative-sticky", mixed=False, more=False),
    Cell(1000, 10, 100, "cooperative-sticky", mixed=True, more=False),
    Cell(1000, 10, 100, "cooperative-sticky", mixed=True, more=True),
]


def jmh_row(cell: Cell, *, always: bool = False) -> Row:
    """A cell of Kafka's grid as a row."""
    kind = "heterogeneous" if cell.mixed else "homogeneous"
    more = f"{' incremental' if cell.more else ''}{' racks' if cell.racks else ''}"
    name = f"JMH {cell.members}-{cell.ratio}-{cell.topics} {kind}{more}"
    go = None if cell.strategy.startswith("server:") or cell.racks else ""
    return Row(
        name, lambda s: jmh(cell._replace(strategy=s)), cell.strategy, go=go, always=always
    )  # fmt: skip


def jmh_rows(*, racks: bool) -> list[Row]:
    """Return Kafka's grid: 704 cells without racks, or the 352 of its clients with racks."""
    return [
        jmh_row(Cell(members, ratio, topics, strategy, mixed, more, racks))
        for strategy in ("cooperative-sticky", "range", "server:uniform", "server:range")
        for members in (100, 500, 1000, 5000, 10000)
        for ratio in (5, 10, 50)
        for topics in (10, 100, 1000)
        for mixed in (False, True)
        for more in (False, True)
        if members * ratio >= topics and not (racks and strategy.startswith("server:"))
    ]
