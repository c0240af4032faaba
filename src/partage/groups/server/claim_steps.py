"""Claims of a whole group read in one pass, as a kernel."""
# ruff: noqa: ANN001, ANN201, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel

__all__ = ["larger_quotas", "read_claims"]


@kernel(
    "int64(int64[::1], int64[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], boolean[::1])"
)
def read_claims(at, name_start, name, number, begin, limit, size, partition, given):
    """Dense numbers of claims that are plainly right; how many were, until one was not.

    ``at`` says where each member's claims begin, ``name_start`` where its names do; ``name``
    counts from there. A name's partitions are ``limit`` ones from ``begin`` on. Claimed are
    ``number``s; how many under each name goes to ``size``, the dense ones to ``partition``,
    and marks to ``given``. Not plainly right: a number that the topic does not have, a
    partition that is claimed twice, and names that do not lie together.
    """
    for m in range(len(at) - 1):
        last = name_start[m]
        for i in range(at[m], at[m + 1]):
            one = name_start[m] + name[i]
            if one < last or one >= name_start[m + 1] or number[i] < 0 or number[i] >= limit[one]:
                return i
            last = one
            dense = begin[one] + number[i]
            if given[dense]:
                return i
            given[dense] = True
            size[one] += 1
            partition[i] = dense
    return len(number)


@kernel("void(int64[::1], int64, int64, int64[::1], int64[::1])")
def larger_quotas(had, quota, extra, kept, missing):
    """What members keep and what they get, both in the order of the map; see `_quotas`."""
    for i in range(len(had)):
        mine = quota + 1 if extra > 0 else quota
        keeps = min(had[i], mine)
        left = mine - keeps
        if extra > 0:
            if left > 0 and len(had) - i > extra:
                left -= 1
            else:
                extra -= 1
        kept[i] = keeps
        missing[i] = left
