"""What members say they own, brought to numbers: who, which spot, of which generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.kernels import dispute, hash_names, read_claims
from partage.groups.sticky.problem import Scene, Spots, keys_of
from partage.model import NO_GENERATION, Member
from partage.model.index import Int32Array
from partage.wire.sticky_userdata import decode_sticky_user_data

__all__ = ["NOBODY", "Claimed", "Owned", "equal_subscriptions", "from_owned", "from_user_data", "raw_owned", "read_together", "settled"]


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


NOBODY = -1


@dataclass(frozen=True, eq=False)
class Owned:
    """Claims after the disputes: nothing has two owners.

    Attributes:
        owner: int32[S], who owns each spot, -1 for nobody.
        held: bool[n], which of the claims hold; None for all.
        disputed: bool[S], claimed by two members of one generation; such a mark stays, even
            where a member of a newer generation came and took the spot. None for none.
    """

    owner: Int32Array
    held: NDArray[np.bool_] | None = None
    disputed: NDArray[np.bool_] | None = None


def equal_subscriptions(scene: Scene) -> bool:
    """Whether Kafka takes all subscriptions for equal.

    A subscription with a repeated name is not equal to another of its kind, and members
    that subscribe to nothing count only after the first that subscribes to something (Q1).
    """
    group = scene.problem.group
    subscription_of = group.subscription_of.tolist()
    order = [subscription_of[m] for m in scene.visit]
    first = next((i for i, s in enumerate(order) if group.subscriptions[s]), None)
    if first is None:
        return True
    common = set(group.subscriptions[order[first]])
    return all(
        len(group.subscriptions[s]) == len(common) and common.issuperset(group.subscriptions[s])
        for s in set(order[first + 1 :])
    )


def settled(scene: Scene, claimed: Claimed) -> Owned:
    """Who owns what: the newer generation wins, equal ones lose it both.

    The generation of the earlier claimant is read from its subscription's field, the one of
    the later claimant from its claim. For sticky these differ when the field is not set (Q5).
    """
    owner = np.full(claimed.spots.count, NOBODY, np.int32)
    owner[claimed.spot] = claimed.member
    if np.count_nonzero(owner >= 0) == len(claimed.spot):
        return Owned(owner)
    owner.fill(NOBODY)
    disputed = np.zeros(len(owner), bool)
    held = np.zeros(len(claimed.spot), bool)
    entry = np.full(len(owner), -1, np.int64)
    sent = np.array([m.generation for m in scene.problem.group], np.int64)
    dispute(
        claimed.member, claimed.spot, claimed.generation, sent, owner, entry, held, disputed,
        work=len(held),
    )  # fmt: skip
    # Whom a disputed spot was left with decides about later claims only.
    owner[entry < 0] = NOBODY
    return Owned(owner, held, disputed)


_REPLACEMENT = "\ufffd"


def read_together(
    scene: Scene,
) -> (
    tuple[tuple[Int32Array, Int32Array, Int32Array], tuple[NDArray[np.int64], NDArray[np.bool_]]]
    | None
):
    """(member, topic, number) a claim in visiting order, and (generation, dated) a member.

    As `partage.wire.sticky_userdata.decode_sticky_user_data`, member by member. None where a
    known topic's name has the character that Java puts for bytes that are no UTF-8: such a
    name could be spelled by damaged bytes, which this does not look for.
    """
    group = scene.problem.group
    texts = [scene.problem.index.topics[t] for t in scene.topics.tolist()]
    if any(_REPLACEMENT in text for text in texts):
        return None
    encoded = [_sendable(text) for text in texts]
    names = np.frombuffer(bytearray().join(encoded), np.uint8)
    name_start = _offsets([len(one) for one in encoded])
    table = np.full(1 << (2 * len(texts) + 1).bit_length(), -1, np.int32)
    hash_names(names, name_start, table, work=8 * len(names))
    sent = [group[m].user_data or b"" for m in scene.visit]
    data = np.frombuffer(bytearray().join(sent), np.uint8)
    most = len(data) // 4  # a claim is four bytes at least
    topic, number = np.empty(most, np.int32), np.empty(most, np.int32)
    count = np.zeros(len(sent), np.int64)
    generation = np.full(len(sent), NO_GENERATION, np.int64)
    dated = np.zeros(len(sent), bool)
    total = int(read_claims(
        data, _offsets([len(one) for one in sent]), names, name_start, table,
        np.full(len(texts) + 1, -1, np.int32), topic, number,
        count, generation, dated, work=3 * len(data),
    ))  # fmt: skip
    visit = np.array(scene.visit, np.int32)
    by_member, dated_by_member = np.empty_like(generation), np.empty_like(dated)
    by_member[visit], dated_by_member[visit] = generation, dated
    member = np.repeat(visit, count)
    return (member, topic[:total], number[:total]), (by_member, dated_by_member)


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def _sendable(text: str) -> bytes:
    """UTF-8; nothing where there is none (a lone surrogate), for nobody can send that name."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b""
