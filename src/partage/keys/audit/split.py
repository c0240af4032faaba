"""Keys that live in two partitions: their order is broken, and why."""

from __future__ import annotations

from dataclasses import dataclass

from partage.keys.audit.pairs import KeyPairs
from partage.keys.audit.writers import TopicVerdict

__all__ = ["SplitExample", "SplitKeys", "split_keys"]

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class SplitExample:
    """One key, and where it was seen from when to when (milliseconds UTC)."""

    key: bytes
    reason: str
    seen: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class SplitKeys:
    """Keys in more than one partition.

    Attributes:
        keys: how many there are.
        of: distinct keys in all.
        grew: those that one family explains by two partition counts.
        writers: those that it takes two families to explain.
        unexplained: the others: explicit partitions, a custom partitioner, ...
        examples: a few; ``seen`` has (partition, records, first ms, last ms), oldest first.
    """

    keys: int
    of: int
    grew: int
    writers: int
    unexplained: int
    examples: tuple[SplitExample, ...]


def split_keys(seen: KeyPairs, verdict: TopicVerdict) -> SplitKeys:
    """The keys of a topic that are in several partitions, by the reason that explains them.

    >>> import numpy as np
    >>> seen = KeyPairs.of([(b"a", 0), (b"a", 1), (b"b", 0)])
    >>> split_keys(seen, Verdict("too few keys", (), 0.0, 2, np.zeros((0, 3), np.bool_))).keys
    1
    """
    rows: dict[bytes, list[int]] = {}
    for i, key in enumerate(seen.keys):
        rows.setdefault(key, []).append(i)
    several = {key: at for key, at in rows.items() if len(at) > 1}
    reasons = {key: _reason(at, verdict) for key, at in several.items()}
    told = list(reasons.values())
    examples = []
    for reason in dict.fromkeys(told):  # some of each reason
        of_it = [key for key, r in reasons.items() if r == reason]
        examples += [_example(key, reason, several[key], seen) for key in of_it[:_EXAMPLES]]
    return SplitKeys(
        len(several), len(rows), told.count("the topic grew"), told.count("two writers"),
        told.count("unexplained"), tuple(examples),
    )  # fmt: skip


def _reason(rows: list[int], verdict: TopicVerdict) -> str:
    explains = verdict.explains[:, rows]
    if not len(explains) or not explains.any(axis=0).all():
        return "unexplained"
    for family in verdict.families:
        own = [i for i, w in enumerate(verdict.writers) if w.family == family]
        if explains[own].any(axis=0).all():
            return "the topic grew"
    return "two writers"


def _example(key: bytes, reason: str, rows: list[int], seen: KeyPairs) -> SplitExample:
    where = sorted(
        (int(seen.first_ms[i]), int(seen.partition[i]), int(seen.records[i]), int(seen.last_ms[i]))
        for i in rows
    )
    return SplitExample(key, reason, tuple((p, n, first, last) for first, p, n, last in where))
