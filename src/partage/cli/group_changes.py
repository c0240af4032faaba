"""What changed in a group between two looks of `partage groups --watch`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partage.capture.groups import LiveGroup, LiveMember

__all__ = ["changes"]

Partition = tuple[str, int]


def changes(before: Iterable[LiveGroup], now: Iterable[LiveGroup]) -> list[str]:
    """A sentence for each group that is not as it was: who came and went, how much moved.

    >>> changes([], [])
    []
    """
    was = {one.id: one for one in before}
    said = [_change(was.get(one.id), one) for one in now]
    gone = was.keys() - {one.id for one in now}
    return [one for one in said if one] + [f"{one}: no longer there" for one in sorted(gone)]


def _change(before: LiveGroup | None, now: LiveGroup) -> str:
    if before is None:
        return f"{now.id}: new"
    old, new = ({m.id: m for m in one.members} for one in (before, now))
    parts = [f"{_name(new[one])} came" for one in sorted(new.keys() - old.keys())]
    parts += [f"{_name(old[one])} left" for one in sorted(old.keys() - new.keys())]
    had, has = _owners(before), _owners(now)
    moved = sum(1 for one, owner in has.items() if one in had and had[one] != owner)
    lost = sum(1 for one in had if one not in has)
    parts += [f"{moved} partitions moved"] * bool(moved) + [f"{lost} without owner"] * bool(lost)
    if before.state != now.state:
        parts.append(f"{before.state} -> {now.state}")
    return f"{now.id}: {', '.join(parts)}" if parts else ""


def _name(member: LiveMember) -> str:
    return member.instance_id or member.client_id or member.id


def _owners(group: LiveGroup) -> Mapping[Partition, str]:
    return {one: m.id for m in group.members for one in m.owned}
