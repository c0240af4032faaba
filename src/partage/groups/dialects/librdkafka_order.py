"""In which order librdkafka lines members up."""

from __future__ import annotations

from collections.abc import Sequence

from partage.model import Group

__all__ = ["sorted_members"]


def sorted_members(group: Group, members: Sequence[int]) -> list[int]:
    """Two static members by instance id, any other two by member id; strings as UTF-8 bytes.

    That is no order where both kinds are there: what comes out depends on which pairs the
    sort compares. So this is the merge sort of the GNU C library's ``qsort`` (halves, the
    left one shorter; ties keep their order), whose library librdkafka is built on on Linux.

    >>> from partage.model import Member
    >>> group = Group([Member("b", instance_id="1"), Member("a", instance_id="2"), Member("c")])
    >>> [group[m].id for m in sorted_members(group, [0, 1, 2])]
    ['b', 'a', 'c']
    """
    if len(members) <= 1:
        return list(members)
    half = len(members) // 2
    left, right = sorted_members(group, members[:half]), sorted_members(group, members[half:])
    out: list[int] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if _not_after(group, left[i], right[j]):
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]


def _not_after(group: Group, a: int, b: int) -> bool:
    one, other = group[a], group[b]
    if one.instance_id is not None and other.instance_id is not None:
        return one.instance_id <= other.instance_id  # code points sort as their UTF-8 bytes
    return one.id <= other.id
