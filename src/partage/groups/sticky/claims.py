"""What members say they own, brought to numbers: who, which spot, of which generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.scene import Scene, Spots, keys_of
from partage.groups.sticky.userdata import read_together
from partage.groups.sticky.userdata_steps import read_claims
from partage.model import NO_GENERATION, Member
from partage.model.index import Int32Array
from partage.wire.sticky_userdata import decode_sticky_user_data

__all__ = ["Claimed", "from_owned", "from_user_data", "raw_owned"]

_List = tuple[int, Int32Array, Int32Array]


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
    total = sum(len(m.user_data) for m in group if m.user_data)
    # Member by member takes half a kernel's interpreted step a byte.
    if read_claims.pays(work=total // 2):
        read = read_together(scene)
        if read is not None:
            return _placed(scene, *read)
    number_of = scene.topic_by_name
    lists: list[_List] = []
    generation: list[int | None] = [None] * len(group)
    for m in scene.visit:
        claims, generation[m] = decode_sticky_user_data(group[m].user_data)
        known = [(number_of[t], p) for t, p in claims if t in number_of]
        if known:
            pairs = np.array(known, np.int32)
            lists.append((m, pairs[:, 0], pairs[:, 1]))
    return _placed(scene, _joined(lists), _as_arrays(generation))


def from_owned(scene: Scene) -> Claimed:
    """The claims that ``CooperativeStickyAssignor`` believes: owned partitions."""
    generation = [_cooperative_generation(member) for member in scene.problem.group]
    return _placed(scene, _owned(scene), _as_arrays(generation))


def raw_owned(scene: Scene, spots: Spots) -> tuple[Int32Array, Int32Array]:
    """Members and spots of every owned partition that is one of ``spots``."""
    member, topic, number = _owned(scene)
    if spots.regular and scene.counted:
        inside = (number >= 0) & (number < scene.counts[topic])
        return member[inside], scene.start[topic[inside]] + number[inside]
    keys = keys_of(topic, number)
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


def _owned(scene: Scene) -> tuple[Int32Array, Int32Array, Int32Array]:
    """(member, topic, number) of every owned partition of a known topic, in visiting order."""
    if scene.owned is None:
        scene.owned = _read(scene)
    return scene.owned


def _read(scene: Scene) -> tuple[Int32Array, Int32Array, Int32Array]:
    members = scene.problem.group.members
    said = [(m, members[m].owned) for m in scene.visit if len(members[m].owned.partition)]
    if not said:
        return _joined([])
    # Claims made from one plan share their tuple of names: it is resolved once.
    tuples = {id(claims.topics): claims.topics for _, claims in said}
    names = list(chain.from_iterable(tuples.values()))
    look_up = scene.topic_by_name.get
    resolved = np.array([look_up(name, -1) for name in names], np.int32)
    ends = list(accumulate(map(len, tuples.values()), initial=0))
    first = dict(zip(tuples, ends, strict=False))
    member, topic, number = _joined([(m, one.topic_ix, one.partition) for m, one in said])
    if len(tuples) > 1:
        sizes = [len(one.partition) for _, one in said]
        topic += np.repeat(np.array([first[id(one.topics)] for _, one in said], np.int32), sizes)
    topic = resolved[topic]
    known = topic >= 0
    if known.all():
        return member, topic, number
    return member[known], topic[known], number[known]


def _joined(lists: Sequence[_List]) -> tuple[Int32Array, Int32Array, Int32Array]:
    if not lists:
        empty = np.zeros(0, np.int32)
        return empty, empty, empty
    sizes = [len(topic) for _, topic, _ in lists]
    member = np.repeat(np.array([m for m, _, _ in lists], np.int32), sizes)
    return member, np.concatenate([t for _, t, _ in lists]), np.concatenate([n for *_, n in lists])


def _as_arrays(generation: Sequence[int | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    number = [NO_GENERATION if g is None else g for g in generation]
    return np.array(number, np.int64), np.array([g is not None for g in generation], bool)


def _placed(
    scene: Scene,
    claims: tuple[Int32Array, Int32Array, Int32Array],
    generations: tuple[NDArray[np.int64], NDArray[np.bool_]],
) -> Claimed:
    member, topic, number = claims
    generation, dated = generations
    spot, spots = scene.located(topic, number)
    return Claimed(member, spot, spots, generation, dated)
