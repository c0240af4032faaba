"""Writers of a topic: the fewest partitioners that explain the partition of each key.

Distinct (key, partition) pairs are independent tests; records are not. A family with n partitions
explains a pair by chance once in n. Families are chosen greedily (greedy set cover): the one that
explains most of the unexplained pairs first, as long as that is no chance. By the bound below,
less than one topic in ten thousand with random partitions gets any name, however many families
and partition counts are tried. Keys in several partitions are explained by these writers as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import NDArray

from partage.keys.audit.evidence import KeyPairs, PartitionerFamily, Place, log_chance

__all__ = [
    "FEWEST_KEYS",
    "InferredWriters",
    "SplitExample",
    "SplitKeys",
    "WriterFamily",
    "count_split_keys",
    "infer_writers",
]

#: Fewest distinct keys for a statement.
FEWEST_KEYS = 30
#: Probability of a false name for one topic, over all families and counts tried.
FALSE_ALARM = 1e-4
#: A rival whose likelihood is within this factor cannot be ruled out.
_RULED_OUT = log(1e3)
#: Share of a writer's pairs that may lie elsewhere (explicit partitions).
_NOISE = 0.01
#: Most writers of a topic; a bound for damaged input.
_MOST_WRITERS = 12

_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WriterFamily:
    """Equivalent client partitioners that probably wrote a topic, with the evidence for it.

    Partitioners are equivalent if they place every key in the same partition. They explain an
    observed (key, partition) pair if they would place the key in that partition.

    Attributes:
        family: the equivalent partitioners.
        partitions: the partition count at which they wrote.
        pairs: number of pairs that they explain and no family before them in the list does.
        only: number of pairs that no other family explains.
        share: share of all pairs that they explain (others may explain them too).
        log10_chance: log10 of an upper bound of the probability to explain as many pairs by chance,
            corrected for the number of families tried.
        first_ms, last_ms: time range of the pairs that only this family explains.
        rivals: families that cannot be ruled out as the writer of those pairs.
    """

    family: PartitionerFamily
    partitions: int
    pairs: int
    only: int
    share: float
    log10_chance: float
    first_ms: int
    last_ms: int
    rivals: tuple[PartitionerFamily, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InferredWriters:
    """Client partitioners that most likely wrote a topic; `infer_writers` returns them.

    A partitioner explains an observed (key, partition) pair if it would place the key in that
    partition.

    Attributes:
        status: ``named`` (equivalent partitioners, at one or more partition counts), ``mixed``
            (different partitioners), ``no partitioner fits``, ``too few keys`` or ``one
            partition``.
        writers: the partitioners with their counts, in order of time.
        explained: share of (key, partition) pairs that a writer explains; 1.0 for a topic with one
            partition.
        keys: number of distinct keys examined.
        explains: bool[writers, pairs], which pairs each writer explains.
    """

    status: str
    writers: tuple[WriterFamily, ...]
    explained: float
    keys: int
    explains: _Bools

    @property
    def writer_families(self) -> tuple[PartitionerFamily, ...]:
        """Distinct groups of equivalent partitioners that wrote the topic, in order of time.

        A group may have written at several partition counts of the topic.
        """
        return tuple(dict.fromkeys(w.family for w in self.writers))


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """Equivalent partitioners that may have written a topic while it had some partition count.

    Its own placement of the observed keys is compared with the partitions in which they are.

    Attributes:
        family: the equivalent partitioners.
        partitions: the partition count.
        placed: int32[n], the partition in which the partitioners place each observed key.
        fits: bool[n], whether that is the key's observed partition.
    """

    family: PartitionerFamily
    partitions: int
    placed: NDArray[np.int32]
    fits: _Bools


def infer_writers(
    observed_pairs: KeyPairs,
    counts: Sequence[int],
    families: Sequence[PartitionerFamily],
    place_keys: Place,
) -> InferredWriters:
    """Infer which client partitioners wrote a topic, from the partitions of its keys.

    The result is the smallest set of partitioners that explains the partitions of most keys.

    Args:
        observed_pairs: the observed distinct (key, partition) pairs of the topic.
        counts: the topic's partition counts over time. Earlier, smaller counts help to find
            partitioners of records from before the topic grew.
        families: families that may have written the topic.
        place_keys: function (name, keys, partition count) -> partitions, which runs the named
            partitioner.

    >>> def place(name, keys, n):
    ...     return np.array([(k[0] if name == "first" else k[-1]) % n for k in keys], np.int32)
    >>> keys = [bytes([a, b]) for a in range(10) for b in range(10)]
    >>> seen = KeyPairs.from_rows([(k, k[0] % 4) for k in keys])
    >>> families = [PartitionerFamily(("first",)), PartitionerFamily(("last",))]
    >>> infer_writers(seen, [4], families, place).writer_families[0].name
    'first'
    """
    keys = len(set(observed_pairs.keys))
    none = np.zeros((0, len(observed_pairs)), np.bool_)
    useful = sorted({n for n in counts if n > 1})
    if not useful:
        return InferredWriters("one partition", (), 1.0, keys, none)
    if keys < FEWEST_KEYS:
        return InferredWriters("too few keys", (), 0.0, keys, none)
    candidates = _evaluate_candidates(observed_pairs, useful, families, place_keys)
    chosen = _choose_writers(observed_pairs, candidates)
    if not chosen:
        return InferredWriters("no partitioner fits", (), 0.0, keys, none)
    explains = np.stack([g.fits for g, _ in chosen])
    writers = [_writer(i, chosen, explains, observed_pairs, candidates) for i in range(len(chosen))]
    order = sorted(range(len(writers)), key=lambda i: (writers[i].first_ms, i))
    several = len({w.family for w in writers}) > 1
    return InferredWriters(
        "mixed" if several else "named",
        tuple(writers[i] for i in order),
        float(np.mean(explains.any(axis=0))),
        keys,
        explains[order],
    )


def _evaluate_candidates(
    seen: KeyPairs, counts: Sequence[int], families: Sequence[PartitionerFamily], place: Place
) -> list[_Candidate]:
    made = []
    for family in families:
        keys = family.part.remove_window(seen.keys)
        long_enough = np.array([len(k) > family.part.window_bytes for k in seen.keys])
        for n in counts:
            placed = place(family.partitioners[0], keys, n)
            made.append(_Candidate(family, n, placed, (placed == seen.partition) & long_enough))
    return made


def _choose_writers(
    observed_pairs: KeyPairs, candidates: Sequence[_Candidate]
) -> list[tuple[_Candidate, float]]:
    """Choose the fewest partitioners that together place most keys of a topic as observed.

    The algorithm is greedy set cover. It repeatedly chooses the partitioner that explains most of
    the (key, partition) pairs left, which means that it would place these keys in these partitions.

    Args:
        observed_pairs: the observed (key, partition) pairs.
        candidates: the partitioners to choose from, each with a partition count.

    Returns:
        the chosen candidates, each with the logarithm of the probability that it fits as well by
            chance.
    """
    left = np.ones(len(observed_pairs), np.bool_)
    chosen: list[tuple[_Candidate, float]] = []
    enough = log(FALSE_ALARM / _MOST_WRITERS) - log(len(candidates))
    while len(chosen) < _MOST_WRITERS and left.any():
        best, chance = None, 0.0
        for candidate in candidates:
            # It cannot have written pairs of other partitions.
            pairs = left & (observed_pairs.partition < candidate.partitions)
            hits, tries = int((candidate.fits & pairs).sum()), int(pairs.sum())
            if log_chance(hits, tries, 1 / candidate.partitions) >= chance:
                continue
            now = log_chance(hits, tries, _match_probability(candidate, observed_pairs, pairs))
            if now < chance:
                best, chance = candidate, now
        if best is None or chance > enough:
            break
        chosen.append((best, chance + log(len(candidates))))
        left &= ~best.fits
    return chosen


def _match_probability(candidate: _Candidate, observed_pairs: KeyPairs, pairs: _Bools) -> float:
    """Return the probability that a wrong partitioner matches a key's observed partition by chance.

    It is about 1 / n for n partitions, and higher if most keys are in few partitions.

    Args:
        candidate: the wrong partitioner.
        observed_pairs: the observed (key, partition) pairs.
        pairs: mask of the pairs to use.
    """
    # The probability is higher if most keys are in few partitions and the hash maps keys to just
    # these (multiples of 8, repeated letters).
    where, times = np.unique(observed_pairs.partition[pairs], return_counts=True)
    placed_in = np.sort(candidate.placed[pairs])
    same = np.searchsorted(placed_in, where, "right") - np.searchsorted(placed_in, where, "left")
    return max(1 / candidate.partitions, float(times @ same) / float(pairs.sum()) ** 2)


def _writer(
    i: int,
    chosen: Sequence[tuple[_Candidate, float]],
    explains: _Bools,
    seen: KeyPairs,
    candidates: Sequence[_Candidate],
) -> WriterFamily:
    candidate, chance = chosen[i]
    before = explains[:i].any(axis=0)
    only = candidate.fits & (explains.sum(axis=0) == 1)
    pairs = only if only.any() else candidate.fits & ~before
    chosen_families = {g.family for g, _ in chosen}
    return WriterFamily(
        candidate.family,
        candidate.partitions,
        int((candidate.fits & ~before).sum()),
        int(only.sum()),
        float(candidate.fits.mean()),
        chance / log(10),
        *_time_range(seen, pairs, int((~explains.any(axis=0)).sum()) / (candidate.partitions - 1)),
        _rivals(candidate, pairs, [c for c in candidates if c.family not in chosen_families]),
    )


def _time_range(observed_pairs: KeyPairs, pairs: _Bools, by_chance: float) -> tuple[int, int]:
    """Return when a partitioner wrote to a topic: the times (ms) of its first and last record.

    Outliers at both ends are ignored, because some pairs match a partitioner only by chance.

    Args:
        observed_pairs: the observed (key, partition) pairs with times.
        pairs: mask of the pairs that the partitioner matches.
        by_chance: expected number of pairs that it matches only by chance.
    """
    # A record with an explicit partition may match by chance, years before the first record that
    # the partitioner placed. So at least ``by_chance`` pairs are skipped at each end.
    first, last = np.sort(observed_pairs.first_ms[pairs]), np.sort(observed_pairs.last_ms[pairs])
    skipped = min(ceil(by_chance + 3 * sqrt(by_chance)), (len(first) - 1) // 2)
    return int(first[skipped]), int(last[len(last) - 1 - skipped])


def _rivals(
    candidate: _Candidate, pairs: _Bools, others: Sequence[_Candidate]
) -> tuple[PartitionerFamily, ...]:
    tries = int(pairs.sum())
    own = tries * log(1 - _NOISE + _NOISE / candidate.partitions)
    out: dict[PartitionerFamily, None] = {}
    for other in others:
        hits = int((other.fits & pairs).sum())
        hit, miss = 1 - _NOISE + _NOISE / other.partitions, _NOISE / other.partitions
        if hits * log(hit) + (tries - hits) * log(miss) > own - _RULED_OUT:
            out[other.family] = None
    return tuple(out)


_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class SplitExample:
    """Example of a key that has records in several partitions of a topic, with the reason.

    Attributes:
        key: the key's bytes.
        reason: "the topic grew", "two writers" or "unexplained".
        seen: (partition, records, first and last time in ms UTC) of each partition.
    """

    key: bytes
    reason: str
    seen: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class SplitKeys:
    """Numbers of a topic's keys that have records in more than one partition, by reason.

    Records of such a key lose their order, and cannot be joined by key.

    Attributes:
        keys: number of keys in more than one partition.
        of: number of all distinct keys.
        grew: keys in two partitions because the topic's partition count changed.
        writers: keys in two partitions because two different partitioners placed them.
        unexplained: keys split for another reason: explicit partitions, a custom partitioner, ...
        examples: a few split keys; ``seen`` has (partition, records, first ms, last ms), oldest
            first.
    """

    keys: int
    of: int
    grew: int
    writers: int
    unexplained: int
    examples: tuple[SplitExample, ...]


def count_split_keys(observed_pairs: KeyPairs, inferred: InferredWriters) -> SplitKeys:
    """Count a topic's keys that have records in several partitions, by reason.

    The reason is a changed partition count, or two different partitioners. Other keys count as
    unexplained.

    Args:
        observed_pairs: the topic's (key, partition) pairs.
        inferred: the partitioners that `infer_writers` found.

    >>> import numpy as np
    >>> seen = KeyPairs.from_rows([(b"a", 0), (b"a", 1), (b"b", 0)])
    >>> inferred = InferredWriters("too few keys", (), 0.0, 2, np.zeros((0, 3), np.bool_))
    >>> count_split_keys(seen, inferred).keys
    1
    """
    rows: dict[bytes, list[int]] = {}
    for i, key in enumerate(observed_pairs.keys):
        rows.setdefault(key, []).append(i)
    several = {key: at for key, at in rows.items() if len(at) > 1}
    reasons = {key: _reason(at, inferred) for key, at in several.items()}
    found = list(reasons.values())
    examples = []
    for reason in dict.fromkeys(found):  # some of each reason
        of_it = [key for key, r in reasons.items() if r == reason]
        examples += [
            _example(key, reason, several[key], observed_pairs) for key in of_it[:_EXAMPLES]
        ]
    return SplitKeys(
        len(several), len(rows), found.count("the topic grew"), found.count("two writers"),
        found.count("unexplained"), tuple(examples),
    )  # fmt: skip


def _reason(rows: list[int], inferred: InferredWriters) -> str:
    explains = inferred.explains[:, rows]
    if not len(explains) or not explains.any(axis=0).all():
        return "unexplained"
    for family in inferred.writer_families:
        own = [i for i, w in enumerate(inferred.writers) if w.family == family]
        if explains[own].any(axis=0).all():
            return "the topic grew"
    return "two writers"


def _example(key: bytes, reason: str, rows: list[int], seen: KeyPairs) -> SplitExample:
    where = sorted(
        (int(seen.first_ms[i]), int(seen.partition[i]), int(seen.records[i]), int(seen.last_ms[i]))
        for i in rows
    )
    return SplitExample(key, reason, tuple((p, n, first, last) for first, p, n, last in where))
