"""Random calls of producers: clusters with leaders missing, keys of all lengths, explicit partitions."""

from __future__ import annotations

import partage as pg
from partage.errors import PartageError
from partage.keys import start

CALLS_AT_ONCE = 200
LENGTHS = [0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 17, 36, 63, 200]
COUNTS = [1, 2, 3, 5, 6, 10, 12, 24, 100]
EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 50, -60]


def random_key(rng, *, text=False):
    length = rng.choice(LENGTHS)
    if text:
        return "".join(rng.choice("abz09-é€😀") for _ in range(length)).encode()
    return rng.randbytes(length)


def random_topic(rng):
    """Partitions in the metadata's order, and whether each has a leader."""
    count = rng.choice(COUNTS)
    order = list(range(count))
    if rng.random() < 0.5:
        rng.shuffle(order)
    how = rng.random()
    leads = [how < 0.4 or (how < 0.9 and rng.random() < 0.6) for _ in order]
    return [[p, led] for p, led in zip(order, leads, strict=True)]


def available(topic):
    """As our states have it: those with a leader in the metadata's order."""
    return tuple(p for p, led in topic if led)


def random_records(rng, topics, *, null=0.4, explicit=0.0, text=False):
    names, records = list(topics), []
    for _ in range(CALLS_AT_ONCE):
        topic = rng.choice(names)
        key = None if rng.random() < null else random_key(rng, text=text)
        named = None
        if rng.random() < explicit:
            named = rng.randint(-2, len(topics[topic]) + 2)
        records.append([topic, None if key is None else key.hex(), named])
    return records


def bytes_of(record):
    return None if record[1] is None else bytes.fromhex(record[1])


def ours_one_by_one(name, request, state):
    """Each record by a call of its own; a refusal has the client's own message."""
    out = []
    for record in request["records"]:
        topic = request["topics"][record[0]]
        now = pg.keys.with_leaders(state, available(topic))
        try:
            placed, now = pg.partition_for(
                [bytes_of(record)],
                partitions=len(topic),
                partitioner=name,
                state=now,
                explicit=None if record[2] is None else [record[2]],
            )
        except PartageError as e:
            out.append(e.args[0])
            continue
        state = now
        out.append(int(placed[0]))
    return out


def ours_at_once(name, request, **settings):
    """All records of one topic in one call."""
    topic = request["topics"]["t"]
    state = start(name, available=available(topic), **settings)
    keys = [bytes_of(one) for one in request["records"]]
    return pg.partition_for(keys, partitions=len(topic), partitioner=name, state=state)[0].tolist()
