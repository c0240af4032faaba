"""Small groups with unequal subscriptions, in which a few members own nearly everything."""

from __future__ import annotations

import random

import partage as pg
from partage.wire.sticky_userdata import encode_sticky_user_data

Topics = dict[str, int]


def skewed_group(rng: random.Random, *, version_first: bool = False) -> tuple[Topics, pg.Group]:
    """Return topics and a group whose members claim what they own in every form that is read.

    Args:
        rng: the source of chance.
        version_first: whether user data begins with its version, as in kafka-python.
    """
    topics = {f"t{i}": rng.randint(1, 10) for i in range(rng.randint(2, 4))}
    names, count = list(topics), rng.randint(2, 7)
    wanted = [rng.sample(names, min(rng.choice([1, 1, 2, 3, 4]), len(names))) for _ in range(count)]
    owned: list[list[tuple[str, int]]] = [[] for _ in range(count)]
    rich = [i for i in range(count) if rng.random() < 0.4] or [0]
    share = rng.random()
    for topic, partitions in topics.items():
        fitting = [i for i in rich if topic in wanted[i]]
        for p in range(partitions):
            if fitting and rng.random() < share:
                owned[rng.choice(fitting)].append((topic, p))
    newest = rng.choice([1, 1, 1, 1, 2])
    members = []
    for i, (its_topics, its) in enumerate(zip(wanted, owned, strict=True)):
        generation = rng.randint(1, newest)
        if generation < newest and rng.random() < 0.5:  # a claim that a newer one may beat
            topic = rng.choice(its_topics)
            its.append((topic, rng.randrange(topics[topic])))
        data = encode_sticky_user_data(its, generation)
        members.append(
            pg.Member(
                f"c{i}",
                its_topics,
                owned=its,
                generation=generation,
                user_data=b"\0\1" + data if version_first else data,
            )
        )
    return topics, pg.Group(members)
