"""The last criterion: each topic spread over its subscribers.

Partitions of one class (the same subscribers, weight and rack costs) that do not stay with a
claimant can exchange their owners: loads, rack cost and moves do not change. Each is given to a
former claimant, if there is one, else to the owner that has the fewest of its topic; then pairs
exchange as long as that makes a topic more even (2-exchange local search). By counts,
`cycle_canceling` continues from there to the most even spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.cycle_canceling import spread_exactly
from partage.groups.optimal.problem import CanonicalProblem, Int64Array, PartitionClasses
from partage.model.index import Int32Array

__all__ = ["spread_topics", "topic_excess"]

#: Limits that keep this step at milliseconds: pairs (topic, member) counted, and rows swapped.
_MOST_PAIRS, _MOST_ROWS = 1 << 20, 5_000
_MOST_EXCHANGES = 2_000
_MOST_PASSES = 3


def spread_topics(
    canonical: CanonicalProblem,
    owner: Int32Array,
    weight: NDArray[np.float64] | None,
    alike: Int64Array,
    classes: PartitionClasses | None = None,
) -> Int32Array:
    """Return owners with the same loads, rack cost and moves, and topics spread more evenly.

    With ``classes`` and without former claims the spread is the most even one of all plans with
    each member's load, the rack cost and the moves of ``owner``; see `spread_exactly`.

    Args:
        canonical: the problem.
        owner: int32[n], place of each row's owner.
        weight: float64[n], loads of rows; None for counts.
        alike: int64[n], class of rows with the same subscribers and rack costs.
        classes: all classes, None where rows have weights.
    """
    if len(canonical.former[0]):
        return _exchange_owners(
            canonical, _return_to_former(canonical, owner, weight, alike), weight, alike
        )
    before = topic_excess(canonical, owner)
    if not before or (canonical.claims.keeper == owner).all():
        return owner
    out = _exchange_owners(canonical, owner, weight, alike)
    after = topic_excess(canonical, out) or 0
    best = out if after < before else owner
    if classes is None or not min(before, after):
        return best
    return spread_exactly(canonical, best, classes, min(before, after))


def _exchange_owners(
    canonical: CanonicalProblem,
    owner: Int32Array,
    weight: NDArray[np.float64] | None,
    alike: Int64Array,
) -> Int32Array:
    """Return the result of the 2-exchange local search, or ``owner`` where that is too large."""
    topics, members = len(canonical.rows.topics), canonical.members
    claims = canonical.claims
    stays = claims.keeper == owner
    if len(claims.contested):
        of = np.repeat(claims.contested, np.diff(claims.start))
        stays[of[claims.keepers == owner[of]]] = True
    loose = np.flatnonzero(~stays & (owner >= 0))
    if topics * members > _MOST_PAIRS or not 1 < len(loose) <= _MOST_ROWS:
        return owner
    before = topic_excess(canonical, owner) or 0
    counts = np.bincount(canonical.topic * members + owner, minlength=topics * members)
    counts = counts.reshape(topics, members)
    out: Int32Array = owner.copy()
    for _ in range(_MOST_PASSES):
        if not before or not _trade_topics(canonical, out, counts, weight, alike):
            break
    loose = np.flatnonzero((claims.keeper != out) & ~stays & (out >= 0))
    key = alike[loose]
    if weight is not None:
        _, number = np.unique(weight[loose], return_inverse=True)
        key = key * (int(number.max()) + 1) + number.reshape(-1)
    order = np.argsort(key, kind="stable")
    for rows in np.split(loose[order], np.flatnonzero(np.diff(key[order])) + 1):
        if len(rows) > 1:
            _reassign_class(canonical, out, counts, rows)
    return out


def _return_to_former(
    canonical: CanonicalProblem,
    owner: Int32Array,
    weight: NDArray[np.float64] | None,
    alike: Int64Array,
) -> Int32Array:
    """Swap rows so that former claimants regain theirs from the newest claimants."""
    keeper: Int32Array = canonical.claims.keeper
    out: Int32Array = owner.copy()
    same = np.ones(len(owner), bool)
    for row, place in zip(*(one.tolist() for one in canonical.former), strict=True):
        newest = int(out[row])
        if newest < 0 or newest == place or keeper[row] != newest:
            continue
        if weight is not None:
            same = weight == weight[row]
        given = np.flatnonzero((keeper == newest) & (out == place) & (alike == alike[row]) & same)
        if len(given):
            out[given[-1]], out[row] = newest, place
    return out


def _trade_topics(
    canonical: CanonicalProblem,
    owner: Int32Array,
    counts: Int64Array,
    weight: NDArray[np.float64] | None,
    alike: Int64Array,
) -> bool:
    """Swap kept rows for equivalent rows of other topics where that is more even."""
    keeper, topic = canonical.claims.keeper, canonical.topic
    changed = False
    kept = np.flatnonzero((keeper == owner) & (owner >= 0))
    kept = kept[np.argsort(keeper[kept], kind="stable")]
    ends = np.searchsorted(keeper[kept], np.arange(canonical.members + 1))
    for q in np.flatnonzero((keeper >= 0) & (keeper != owner) & (owner >= 0)).tolist():
        n, m = int(keeper[q]), int(owner[q])
        mine = kept[ends[n] : ends[n + 1]]
        mine = mine[(alike[mine] == alike[q]) & (owner[mine] == n)]
        if weight is not None:
            mine = mine[weight[mine] == weight[q]]
        if not len(mine):
            continue
        more = counts[:, n] - counts[:, m]
        r = int(mine[np.argmax(more[topic[mine]])])
        if more[topic[r]] - more[topic[q]] > 2:
            changed = True
            counts[topic[r], n] -= 1
            counts[topic[r], m] += 1
            counts[topic[q], m] -= 1
            counts[topic[q], n] += 1
            owner[q], owner[r] = n, m
    return changed


def _reassign_class(
    canonical: CanonicalProblem, owner: Int32Array, counts: Int64Array, rows: Int64Array
) -> None:
    """Permute the owners of the rows of one class."""
    topic, mine = canonical.topic[rows], owner[rows]
    who, quota = np.unique(mine, return_counts=True)
    if len(who) < 2:
        return
    np.subtract.at(counts, (topic, mine), 1)
    at = {m: i for i, m in enumerate(who.tolist())}
    fixed: set[int] = set()
    for row, place in zip(*(one.tolist() for one in canonical.former), strict=True):
        i = at.get(place, -1)
        if i >= 0 and quota[i] and row not in fixed and len(found := np.flatnonzero(rows == row)):
            fixed.add(row)
            owner[row] = place
            quota[i] -= 1
            counts[topic[found[0]], place] += 1
    free = np.array([r for r in rows.tolist() if r not in fixed], np.int64)
    for row in free.tolist():
        t = canonical.topic[row]
        able = np.flatnonzero(quota)
        best = able[np.lexsort((-quota[able], counts[t, who[able]]))[0]]
        owner[row] = who[best]
        quota[best] -= 1
        counts[t, who[best]] += 1
    if len(np.unique(canonical.topic[free])) > 1:
        _swap_owners(canonical, owner, counts, free)


def _swap_owners(
    canonical: CanonicalProblem, owner: Int32Array, counts: Int64Array, rows: Int64Array
) -> None:
    """Swap the owners of two rows of different topics while the sum of squares falls."""
    topic = canonical.topic[rows]
    for _ in range(_MOST_EXCHANGES):
        mine = owner[rows]
        who = np.unique(mine)
        best: tuple[int, int, int] | None = None
        for i, a in enumerate(who.tolist()):
            for b in who[i + 1 :].tolist():
                more = counts[:, a] - counts[:, b]
                of_a, of_b = np.flatnonzero(mine == a), np.flatnonzero(mine == b)
                x = of_a[np.argmax(more[topic[of_a]])]
                y = of_b[np.argmin(more[topic[of_b]])]
                gain = int(more[topic[x]] - more[topic[y]])
                if topic[x] != topic[y] and gain > 2 and (best is None or gain > best[0]):
                    best = gain, int(x), int(y)
            if best is not None:
                break
        if best is None:
            return
        _, x, y = best
        a, b = owner[rows[x]], owner[rows[y]]
        counts[topic[x], a] -= 1
        counts[topic[x], b] += 1
        counts[topic[y], b] -= 1
        counts[topic[y], a] += 1
        owner[rows[x]], owner[rows[y]] = b, a


def topic_excess(canonical: CanonicalProblem, owner: Int32Array) -> int | None:
    """Return by how much topics are spread less evenly than each alone could be; None if too large.

    It is half the sum of squared counts by topic and member, less that of even counts.
    """
    topics, members = len(canonical.rows.topics), canonical.members
    if topics * members > _MOST_PAIRS:
        return None
    given = owner >= 0
    counts = np.bincount(canonical.topic[given].astype(np.int64) * members + owner[given])
    wants = np.zeros((len(canonical.topics_of), topics), bool)
    for s, mine in enumerate(canonical.topics_of):
        wants[s, mine] = True
    sizes = np.bincount(canonical.subscription, minlength=len(wants)) @ wants
    base, extra = np.divmod(canonical.rows.counts, np.maximum(sizes, 1))
    even = base * base * (sizes - extra) + (base + 1) * (base + 1) * extra
    return int((int((counts * counts).sum()) - int(even[sizes > 0].sum())) // 2)
