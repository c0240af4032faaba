"""Hypothesis strategies for clusters and groups with difficult cases.

    from hypothesis import given
    from partage.testing.strategies import problems

    @given(problems(racks=True))
    def test_my_strategy(problem):
        plan = my_strategy.assign(problem)

They shrink towards one member, one topic and one partition. Frequent cases are equal partition
counts, names in one Java hash bucket or with another order in Java than in Python, static members,
topics without partitions, and subscriptions to topics that do not exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from partage.model import Cluster, Group, Member, Problem

__all__ = ["clusters", "groups", "problems", "topic_names"]

_RACKS = ("a", "b", "c")
# Equal hash; Java order unlike Python's; long, short, with a dash and a number behind it.
_ODD_NAMES = ("Aa", "BB", "AaAa", "AaBB", "BBBB", "\U00010000", "ｚ", "é", "a-0", "a.b_c", "Т3")


def topic_names() -> st.SearchStrategy[str]:
    """Return a Hypothesis strategy that generates names of topics or members.

    Most names are short. Some are unusual: equal Java hash codes, non-ASCII characters, or an order
    that differs between Java and Python.
    """
    return st.one_of(
        st.integers(0, 15).map("t{}".format),
        st.sampled_from(_ODD_NAMES),
        st.text("abc-19", min_size=1, max_size=4),
    )


@st.composite
def clusters(
    draw: st.DrawFn, *, max_topics: int = 6, max_partitions: int = 9, racks: bool = False
) -> Cluster:
    """Return a Hypothesis strategy that generates Kafka clusters with topics and partitions.

    Equal partition counts and topics without partitions are frequent.

    Args:
        draw: given by Hypothesis.
        max_topics: maximum number of topics.
        max_partitions: maximum number of partitions of a topic.
        racks: whether most partitions have replicas on some of three racks.
    """
    names = draw(st.lists(topic_names(), max_size=max_topics, unique=True))
    usual = draw(st.integers(0, max_partitions))
    counts = st.one_of(st.just(usual), st.integers(0, max_partitions))
    topics: dict[str, int | list[list[str | None]]] = {}
    for name in names:
        count = draw(counts)
        if racks and draw(st.booleans()):
            replicas = st.lists(st.sampled_from([*_RACKS, None]), max_size=3)
            topics[name] = draw(st.lists(replicas, min_size=count, max_size=count))
        else:
            topics[name] = count
    return Cluster.from_topics(topics)


@st.composite
def groups(
    draw: st.DrawFn,
    topics: Sequence[str],
    *,
    min_members: int = 0,
    max_members: int = 8,
    racks: bool = False,
    static: bool = True,
    claims: bool = False,
) -> Group:
    """Return a Hypothesis strategy that generates consumer groups.

    Members subscribe to the given topics and sometimes to a topic that does not exist. Often all
    members have the same subscription.

    Args:
        draw: given by Hypothesis.
        topics: names of the existing topics.
        min_members: minimum number of members.
        max_members: maximum number of members.
        racks: whether members have racks.
        static: whether some members have an instance id.
        claims: whether members report partitions as owned, sometimes the same ones as other
            members.
    """
    ids = draw(st.lists(topic_names(), min_size=min_members, max_size=max_members, unique=True))
    known = st.sampled_from(sorted(topics)) if topics else st.nothing()
    subscription = st.lists(st.one_of(known, st.just("no-such-topic")), max_size=6)
    shared = draw(st.one_of(st.none(), subscription))
    claim = st.tuples(known, st.integers(0, 9))
    members = []
    for number, member_id in enumerate(ids):
        members.append(
            Member(
                member_id,
                shared if shared is not None else draw(subscription),
                rack=draw(st.sampled_from([None, *_RACKS, "d", ""])) if racks else None,
                instance_id=f"i{-number % 5}-{number}" if static and draw(st.booleans()) else None,
                owned=draw(st.lists(claim, max_size=6)) if claims and topics else (),
                generation=draw(st.integers(-1, 4)) if claims else -1,
            )
        )
    return Group(members)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    min_members: int = 0,
    max_members: int = 8,
    racks: bool = False,
    static: bool = True,
    claims: bool = False,
) -> Problem:
    """Return a Hypothesis strategy that generates the input of an assignment strategy.

    Each generated `Problem` is a consumer group with a Kafka cluster. Failing examples shrink
    towards one member, one topic and one partition.

    Args:
        draw: given by Hypothesis.
        min_members: minimum number of members.
        max_members: maximum number of members.
        racks: whether members and partitions have racks.
        static: whether some members have an instance id.
        claims: whether members report partitions as owned.
    """
    cluster = draw(clusters(racks=racks))
    group = draw(
        groups(
            cluster.index.topics,
            min_members=min_members,
            max_members=max_members,
            racks=racks,
            static=static,
            claims=claims,
        )
    )
    return Problem(group, cluster)
