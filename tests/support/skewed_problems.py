"""Small groups with unequal subscriptions, in which a few members own nearly everything."""

from __future__ import annotations

import random

import partage as pg
from partage.wire.consumer_protocol import encode_sticky_user_data

Topics = dict[str, int]
Owned = list[list[tuple[str, int]]]

#: A group on which Kafka's sticky class never returns: partitions, subscriptions, owned partitions.
_LOOPING_TOPICS: Topics = {"t0": 8, "t1": 9, "t2": 5}
_LOOPING_WANTED = [["t2", "t0", "t1"], ["t0", "t1", "t2"], ["t0", "t2"], ["t0"], ["t0"], ["t0"]]
_LOOPING_OWNED = [
    [],
    [("t1", p) for p in (0, 3, 4, 5, 8)],
    [("t0", p) for p in range(1, 8)] + [("t2", p) for p in (0, 1, 3, 4)],
    [],
    [],
    [],
]


def skewed_group(rng: random.Random, *, version_first: bool = False) -> tuple[Topics, pg.Group]:
    """Return topics and a group whose members claim what they own in every form that is read.

    One in ten is a variation of a group on which Kafka's class never returns; of those 1 in 50 is
    such a group again.

    Args:
        rng: the source of chance.
        version_first: whether user data begins with its version, as in kafka-python.
    """
    if rng.random() < 0.1:
        return near_loop(rng, version_first=version_first)
    topics = {f"t{i}": rng.randint(1, 10) for i in range(rng.randint(2, 4))}
    names, count = list(topics), rng.randint(2, 7)
    wanted = [rng.sample(names, min(rng.choice([1, 1, 2, 3, 4]), len(names))) for _ in range(count)]
    owned: Owned = [[] for _ in range(count)]
    rich = [i for i in range(count) if rng.random() < 0.4] or [0]
    share = rng.random()
    for topic, partitions in topics.items():
        fitting = [i for i in rich if topic in wanted[i]]
        for p in range(partitions):
            if fitting and rng.random() < share:
                owned[rng.choice(fitting)].append((topic, p))
    newest = rng.choice([1, 1, 1, 1, 2])
    generations = [rng.randint(1, newest) for _ in range(count)]
    for its_topics, its, generation in zip(wanted, owned, generations, strict=True):
        if generation < newest and rng.random() < 0.5:  # a claim that a newer one may beat
            topic = rng.choice(its_topics)
            its.append((topic, rng.randrange(topics[topic])))
    return topics, _group(
        [f"c{i}" for i in range(count)], wanted, owned, generations, version_first=version_first
    )


def near_loop(rng: random.Random, *, version_first: bool = False) -> tuple[Topics, pg.Group]:
    """Return a variation of a group on which Kafka's class never returns; see `skewed_group`."""
    topics = {
        name: max(1, count + rng.choice([-2, -1, -1, 0, 0, 0, 1, 1, 2]))
        for name, count in _LOOPING_TOPICS.items()
    }
    wanted = [list(its) for its in _LOOPING_WANTED]
    for its in wanted[:3]:
        if rng.random() < 0.3:
            rng.shuffle(its)
    owned = [
        [(t, p) for t, p in its if p < topics[t] and rng.random() < 0.93] for its in _LOOPING_OWNED
    ]
    for _ in range(rng.choice([0, 0, 1, 2])):
        wanted.append(["t0"] if rng.random() < 0.7 else [rng.choice(list(topics))])
        owned.append([])
    if rng.random() < 0.5:
        claimed = {one for its in owned for one in its}
        free = [(t, p) for t, n in topics.items() for p in range(n) if (t, p) not in claimed]
        for topic, p in free:
            if rng.random() < 0.3:
                owner = rng.choice([i for i in range(3) if topic in wanted[i]])
                owned[owner].append((topic, p))
    names = [f"c{i}" for i in range(len(wanted))]
    if rng.random() < 0.5:
        rng.shuffle(names)
    return topics, _group(names, wanted, owned, [1] * len(names), version_first=version_first)


def _group(
    names: list[str],
    wanted: list[list[str]],
    owned: Owned,
    generations: list[int],
    *,
    version_first: bool,
) -> pg.Group:
    members = []
    for name, topics, its, generation in zip(names, wanted, owned, generations, strict=True):
        data = encode_sticky_user_data(its, generation)
        members.append(
            pg.Member(
                name,
                topics,
                owned=its,
                generation=generation,
                user_data=b"\0\1" + data if version_first else data,
            )
        )
    return pg.Group(members)
