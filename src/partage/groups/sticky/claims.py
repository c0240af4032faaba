"""What members say they own, brought to numbers: who, which spot, of which generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.scene import Scene, Spots
from partage.model import NO_GENERATION, Claims, Member
from partage.model.index import Int32Array
from partage.wire.sticky_userdata import decode_sticky_user_data

__all__ = ["Claimed", "from_owned", "from_user_data", "raw_owned"]


@dataclass(frozen=True, eq=False)
class Claimed:
    """All claims of a group on known topics, members in visiting order, each list as sent.

    Attributes:
        member: int32[n], who claims.
        spot: int32[n], what.
        spots: all spots there are, claimed foreign ones included.
        generation: int64[M], of each member's claim, by member; -1 for none.
        dated: bool[M], whether the claim has a generation at all.
    """

    member: Int32Array
    spot: Int32Array
    spots: Spots
    generation: NDArray[np.int64]
    dated: NDArray[np.bool_]


def from_user_data(scene: Scene) -> Claimed:
    """The claims that ``StickyAssignor`` believes: the user data, and nothing else."""
    group = scene.problem.group
    number_of = scene.topic_by_name
    lists: list[tuple[int, Int32Array, Int32Array]] = []
    generation: list[int | None] = [None] * len(group)
    for m in scene.visit:
        claims, generation[m] = decode_sticky_user_data(group[m].user_data)
        known = [(number_of[t], p) for t, p in claims if t in number_of]
        if known:
            pairs = np.array(known, np.int32)
            lists.append((m, pairs[:, 0], pairs[:, 1]))
    return _claimed(scene, lists, generation)


def from_owned(scene: Scene) -> Claimed:
    """The claims that ``CooperativeStickyAssignor`` believes: owned partitions."""
    group = scene.problem.group
    generation: list[int | None] = [_cooperative_generation(member) for member in group]
    return _claimed(scene, _owned_lists(scene), generation)


def raw_owned(scene: Scene, spots: Spots) -> tuple[Int32Array, Int32Array]:
    """Members and spots of every owned partition that is one of ``spots``."""
    lists = _owned_lists(scene)
    member, topic, number = _joined(lists)
    keys = (topic.astype(np.int64) << 32) | (number.astype(np.int64) + (1 << 31))
    order = np.argsort(spots.keys)
    at = np.searchsorted(spots.keys[order], keys)
    at[at == len(order)] = 0
    found = spots.keys[order][at] == keys if len(order) else np.zeros(len(keys), bool)
    return member[found], order[at[found]].astype(np.int32)


def _cooperative_generation(member: Member) -> int | None:
    """From the subscription; else from the user data, four bytes of it."""
    if member.generation >= 0:
        return member.generation
    if member.user_data is None:
        return None
    if len(member.user_data) < 4:
        return NO_GENERATION
    return int.from_bytes(member.user_data[:4], "big", signed=True)


def _owned_lists(scene: Scene) -> list[tuple[int, Int32Array, Int32Array]]:
    number_of = scene.topic_by_name
    # Claims made from one plan share their tuple of names: it is resolved once.
    resolved: dict[int, Int32Array] = {}
    lists = []
    for m in scene.visit:
        claims: Claims = scene.problem.group[m].owned
        if not len(claims):
            continue
        names = resolved.get(id(claims.topics))
        if names is None:
            names = np.array([number_of.get(n, -1) for n in claims.topics], np.int32)
            resolved[id(claims.topics)] = names
        topic, number = names[claims.topic_ix], claims.partition
        known = topic >= 0
        if not known.all():
            topic, number = topic[known], number[known]
        if len(topic):
            lists.append((m, topic, number))
    return lists


def _joined(
    lists: Sequence[tuple[int, Int32Array, Int32Array]],
) -> tuple[Int32Array, Int32Array, Int32Array]:
    if not lists:
        empty = np.zeros(0, np.int32)
        return empty, empty, empty
    sizes = [len(topic) for _, topic, _ in lists]
    member = np.repeat(np.array([m for m, _, _ in lists], np.int32), sizes)
    return member, np.concatenate([t for _, t, _ in lists]), np.concatenate([n for *_, n in lists])


def _claimed(
    scene: Scene,
    lists: Sequence[tuple[int, Int32Array, Int32Array]],
    generation: Sequence[int | None],
) -> Claimed:
    member, topic, number = _joined(lists)
    spot, spots = scene.located(topic, number)
    return Claimed(
        member,
        spot,
        spots,
        np.array([NO_GENERATION if g is None else g for g in generation], np.int64),
        np.array([g is not None for g in generation], bool),
    )
