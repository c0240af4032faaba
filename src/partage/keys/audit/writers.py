"""Which partitioner wrote a topic: the fewest families that explain where its keys lie.

Distinct (key, partition) pairs are tests that do not depend on each other; records are not.
A family with n partitions puts a pair where it is by chance once in n. Families are taken
up greedily, the one first that explains most of what is not yet explained, as long as that
is no chance: with the bound below, fewer than one topic in ten thousand of random input
gets any name, however many families and partition counts are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import NDArray

from partage.keys.audit.evidence import Family, KeyPairs, Place, log_chance

__all__ = [
    "FEWEST_KEYS",
    "SplitExample",
    "SplitKeys",
    "TopicVerdict",
    "WriterFamily",
    "split_keys",
    "who_wrote",
]

#: With fewer distinct keys nothing is said.
FEWEST_KEYS = 30
#: Chance of a false name, for one topic, over everything that is tried on it.
FALSE_ALARM = 1e-4
#: A rival whose likelihood is within this factor cannot be ruled out.
_RULED_OUT = log(1e3)
#: Share of pairs that may lie elsewhere although the family wrote them (explicit partitions).
_NOISE = 0.01
#: No topic has more writers at more counts; a bound for damaged input, not a setting.
_MOST_WRITERS = 12

_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WriterFamily:
    """A family at one partition count.

    Attributes:
        pairs: pairs that it explains and no writer before it does.
        only: pairs that no other writer explains.
        share: of all pairs, those that it explains (others may explain them too).
        log10_chance: upper bound of the probability of as many by chance, all tries counted.
        first_ms, last_ms: of the pairs that only it explains.
        rivals: families that fit those pairs as well, as far as can be told.
    """

    family: Family
    partitions: int
    pairs: int
    only: int
    share: float
    log10_chance: float
    first_ms: int
    last_ms: int
    rivals: tuple[Family, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TopicVerdict:
    """What can be said of a topic.

    Attributes:
        status: ``named`` (one family, at one or more counts), ``mixed`` (several families),
            ``no partitioner fits``, ``too few keys`` or ``one partition``.
        writers: by the time they came.
        explained: share of pairs that some writer explains; 1.0 where it cannot fail.
        keys: distinct keys looked at.
        explains: bool[writers, pairs]: which pairs each writer explains.
    """

    status: str
    writers: tuple[WriterFamily, ...]
    explained: float
    keys: int
    explains: _Bools

    @property
    def families(self) -> tuple[Family, ...]:
        """The families among the writers, by the time they came."""
        return tuple(dict.fromkeys(w.family for w in self.writers))


@dataclass(frozen=True, slots=True, eq=False)
class _Guess:
    family: Family
    partitions: int
    placed: NDArray[np.int32]
    fits: _Bools


def who_wrote(
    seen: KeyPairs, counts: Sequence[int], families: Sequence[Family], place: Place
) -> TopicVerdict:
    """The writers of a topic.

    Args:
        seen: its distinct pairs.
        counts: the partition counts of its history; a count that leaves out a partition seen
            is of use for the pairs from before the topic grew.
        families: those that may have written it.
        place: runs a partitioner.

    >>> def place(name, keys, n):
    ...     return np.array([(k[0] if name == "first" else k[-1]) % n for k in keys], np.int32)
    >>> keys = [bytes([a, b]) for a in range(10) for b in range(10)]
    >>> seen = KeyPairs.of([(k, k[0] % 4) for k in keys])
    >>> who_wrote(seen, [4], [Family(("first",)), Family(("last",))], place).families[0].name
    'first'
    """
    keys = len(set(seen.keys))
    none = np.zeros((0, len(seen)), np.bool_)
    useful = sorted({n for n in counts if n > 1})
    if not useful:
        return TopicVerdict("one partition", (), 1.0, keys, none)
    if keys < FEWEST_KEYS:
        return TopicVerdict("too few keys", (), 0.0, keys, none)
    guesses = _guesses(seen, useful, families, place)
    chosen = _chosen(seen, guesses)
    if not chosen:
        return TopicVerdict("no partitioner fits", (), 0.0, keys, none)
    explains = np.stack([g.fits for g, _ in chosen])
    writers = [_writer(i, chosen, explains, seen, guesses) for i in range(len(chosen))]
    order = sorted(range(len(writers)), key=lambda i: (writers[i].first_ms, i))
    several = len({w.family for w in writers}) > 1
    return TopicVerdict(
        "mixed" if several else "named",
        tuple(writers[i] for i in order),
        float(np.mean(explains.any(axis=0))),
        keys,
        explains[order],
    )


def _guesses(
    seen: KeyPairs, counts: Sequence[int], families: Sequence[Family], place: Place
) -> list[_Guess]:
    made = []
    for family in families:
        keys = family.part.of(seen.keys)
        long_enough = np.array([len(k) > family.part.tail for k in seen.keys])
        for n in counts:
            placed = place(family.partitioners[0], keys, n)
            made.append(_Guess(family, n, placed, (placed == seen.partition) & long_enough))
    return made


def _chosen(seen: KeyPairs, guesses: Sequence[_Guess]) -> list[tuple[_Guess, float]]:
    """Guesses taken up one after the other, with the logarithm of the chance of each."""
    left = np.ones(len(seen), np.bool_)
    chosen: list[tuple[_Guess, float]] = []
    enough = log(FALSE_ALARM / _MOST_WRITERS) - log(len(guesses))
    while len(chosen) < _MOST_WRITERS and left.any():
        best, chance = None, 0.0
        for guess in guesses:
            told = left & (seen.partition < guess.partitions)  # others it cannot have written
            hits, tries = int((guess.fits & told).sum()), int(told.sum())
            if log_chance(hits, tries, 1 / guess.partitions) >= chance:
                continue
            now = log_chance(hits, tries, _by_luck(guess, seen, told))
            if now < chance:
                best, chance = guess, now
        if best is None or chance > enough:
            break
        chosen.append((best, chance + log(len(guesses))))
        left &= ~best.fits
    return chosen


def _by_luck(guess: _Guess, seen: KeyPairs, told: _Bools) -> float:
    """How likely a key lies where the guess has it although the guess did not put it there.

    One in n, but for keys that a hash puts into few partitions (multiples of 8, one letter
    repeated) in a topic most of whose keys lie in these: there two lopsided things meet.
    """
    where, times = np.unique(seen.partition[told], return_counts=True)
    guessed = np.sort(guess.placed[told])
    same = np.searchsorted(guessed, where, "right") - np.searchsorted(guessed, where, "left")
    return max(1 / guess.partitions, float(times @ same) / float(told.sum()) ** 2)


def _writer(
    i: int,
    chosen: Sequence[tuple[_Guess, float]],
    explains: _Bools,
    seen: KeyPairs,
    guesses: Sequence[_Guess],
) -> WriterFamily:
    guess, chance = chosen[i]
    before = explains[:i].any(axis=0)
    only = guess.fits & (explains.sum(axis=0) == 1)
    told = only if only.any() else guess.fits & ~before
    chosen_families = {g.family for g, _ in chosen}
    return WriterFamily(
        guess.family,
        guess.partitions,
        int((guess.fits & ~before).sum()),
        int(only.sum()),
        float(guess.fits.mean()),
        chance / log(10),
        *_span(seen, told, int((~explains.any(axis=0)).sum()) / (guess.partitions - 1)),
        _rivals(guess, told, [g for g in guesses if g.family not in chosen_families]),
    )


def _span(seen: KeyPairs, told: _Bools, by_chance: float) -> tuple[int, int]:
    """From when to when: as many at both ends are left out as may be there by chance.

    Pairs that nobody explains (explicit partitions) fall on this writer's side now and then,
    and one of them would be enough to date a client years too early.
    """
    first, last = np.sort(seen.first_ms[told]), np.sort(seen.last_ms[told])
    skipped = min(ceil(by_chance + 3 * sqrt(by_chance)), (len(first) - 1) // 2)
    return int(first[skipped]), int(last[len(last) - 1 - skipped])


def _rivals(guess: _Guess, told: _Bools, others: Sequence[_Guess]) -> tuple[Family, ...]:
    """Families that are nearly as likely for the pairs which only this writer explains."""
    tries = int(told.sum())
    own = tries * log(1 - _NOISE + _NOISE / guess.partitions)
    out: dict[Family, None] = {}
    for other in others:
        hits = int((other.fits & told).sum())
        hit, miss = 1 - _NOISE + _NOISE / other.partitions, _NOISE / other.partitions
        if hits * log(hit) + (tries - hits) * log(miss) > own - _RULED_OUT:
            out[other.family] = None
    return tuple(out)


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
    >>> split_keys(seen, TopicVerdict("too few keys", (), 0.0, 2, np.zeros((0, 3), np.bool_))).keys
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
