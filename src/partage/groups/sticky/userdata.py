"""The user data of a whole group read in one go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.scene import Scene
from partage.groups.sticky.userdata_steps import hash_names, read_claims
from partage.model import NO_GENERATION
from partage.model.index import Int32Array

__all__ = ["read_together"]

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
