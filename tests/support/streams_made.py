"""Random arguments for SubscriptionInfo and AssignmentInfo, in the form of the vectors."""

from __future__ import annotations

from partage.legacy.kip441_messages import SubscriptionDraft5

NAMES = [None, None, None, "", "ab", "é", "😀", "a" * 40]
TOPICS = [
    "t0",
    "t1",
    "Aa",
    "BB",
    "AaAa",
    "BBBB",
    "AaBB",
    "é",
    "日本",
    "x\0y",
    "app-KSTREAM-repartition",
]
HOSTS = ["h", "other.example", "é", "10.0.0.1"]
INT32 = [0, 1, 2, 3, 5, 9, 17, 64, 1000, 2**31 - 1, -1, -(2**31)]


def _version(rng):
    return (
        rng.choice([*range(1, 12), *range(1, 12), 0, 12, -1])
        if rng.random() < 0.3
        else (rng.randrange(1, 12))
    )


def _tasks(rng, version, most):
    """Distinct tasks; names where the version has them, and now and then where it has not."""
    named = version >= 10 if rng.random() < 0.97 else rng.random() < 0.5
    name = rng.choice(NAMES) if named else None
    wide = rng.random() < 0.2
    made = {}
    for _ in range(rng.randrange(most)):
        one = rng.choice(INT32) if wide else rng.randrange(6)
        other = rng.choice(INT32) if wide else rng.randrange(40)
        mine = rng.choice(NAMES) if named and rng.random() < 0.1 else name
        made[one, other, mine] = None
    return [list(task[:2]) if task[2] is None else list(task) for task in made]


def made_subscription(rng):
    """Arguments of SubscriptionInfo's constructor; some of them it refuses."""
    version = _version(rng)
    latest = rng.choice([11, 11, 11, 11, 12, version, version - 1, -1])
    if version in {1, 2} and rng.random() < 0.5:
        latest = -1
    tags = {rng.choice(["zone", "cluster", "k3", "", "é"]): rng.choice(["a", "", "é", "😀"])
            for _ in range(rng.randrange(4))}  # fmt: skip
    return {
        "what": "subscription",
        "version": version,
        "latest": latest,
        "msb": rng.randrange(-(2**63), 2**63),
        "lsb": rng.randrange(-(2**63), 2**63),
        "endpoint": rng.choice([None, "", "h:80", "app.example:9090", "é:1"]),
        "offsets": [
            [task, rng.choice([-2, -2, -3, 0, 7, rng.randrange(2**40), 2**63 - 1])]
            for task in _tasks(rng, version, rng.choice([3, 12, 60]))
        ],
        "unique": rng.randrange(-128, 128),
        "errorCode": rng.choice([0, 0, 0, 1, 3, 4, 99, -1]),
        "tags": [list(pair) for pair in tags.items()],
    }


def made_draft(rng):
    """A SubscriptionInfo of the document's version 5."""
    lags = {
        (rng.choice(TOPICS), rng.randrange(40)): rng.choice([0, 1, 7, -1, 2**31 - 1])
        for _ in range(rng.randrange(20))
    }
    return SubscriptionDraft5.from_values(
        process=rng.randbytes(16),
        store_lags=lags,
        endpoint=rng.choice([None, "h:80", "é:1"]),
        latest_version=rng.choice([5, 6, 11]),
    )


def _partitions(rng):
    made = {(rng.choice(TOPICS), rng.randrange(6)): None for _ in range(rng.randrange(7))}
    return [list(one) for one in made]


def _hosts(rng):
    made = {
        (rng.choice(HOSTS), rng.choice([80, 8080, 65535])): None for _ in range(rng.randrange(4))
    }
    return [[host, port, _partitions(rng)] for host, port in made]


def made_assignment(rng):
    """Arguments of AssignmentInfo's constructor; some of them it refuses."""
    version = _version(rng)
    line = {
        "what": "assignment",
        "version": version,
        "common": rng.choice([11, 11, version, -1, 3]),
        "active": _tasks(rng, version, 8),
        "standby": [[task, _partitions(rng)] for task in _tasks(rng, version, 6)],
        "hosts": _hosts(rng),
        "standbyHosts": _hosts(rng),
        "errorCode": rng.choice([0, 0, 1, 2, 3, 4, 99, -1]),
    }
    if rng.random() < 0.6:
        line["next"] = rng.choice([0, 1, 1_700_000_000_000, 2**63 - 1])
    return line
