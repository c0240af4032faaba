"""Agreement of partitioners, found by running all of them on the same keys.

Two partitioners agree if every key goes to the same partition at every partition count test_keys.
Otherwise the share of equal placements shows how often they meet by chance, or because their
arithmetic is the same for half of all hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.java.random import JavaRandom
from partage.keys.placing import partition_for
from partage.keys.registry import by_key, find_partitioner
from partage.model.validation import reject_text

__all__ = ["Agreement", "random_keys", "who_agrees"]

COUNTS = (6, 10, 12, 31)
#: Text, so that hashes of strings apply too. Letters outside ASCII distinguish a hash of bytes
#: from one of characters.
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_é€"
#: The start of a window, as ``TimeWindowedSerializer`` appends it to a key.
_WINDOW = (1_700_000_000_000).to_bytes(8, "big")


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Result of `who_agrees`: which Kafka partitioners place the same keys in the same partitions.

    Topics that were written by partitioners of one group can be joined by key.

    Attributes:
        names: names of the compared partitioners, all of which use the key.
        share: float64[n, n], share of keys that two partitioners place in the same partition.
        groups: sets of partitioners that agree on every key, in the order of `names`.
        null: description of how each partitioner places a null key.
        empty: description of how each partitioner places an empty key.
        keys: number of test keys, which are placed at each of ``counts``.
        counts: partition counts at which the keys were placed.
    """

    names: tuple[str, ...]
    share: NDArray[np.float64]
    groups: tuple[tuple[str, ...], ...]
    null: tuple[str, ...]
    empty: tuple[str, ...]
    keys: int
    counts: tuple[int, ...]


def random_keys(count: int, seed: int = 0) -> list[bytes]:
    """Return ``count`` random test keys of 1 to 40 characters, as UTF-8 bytes.

    Equal seeds give equal keys.

    >>> len(set(random_keys(100))) > 95
    True
    """
    draws, out = JavaRandom.from_seed(seed), []
    for _ in range(count):
        number, draws = draws.next_int()
        length, letters = 1 + (number & 0x7FFFFFFF) % 40, []
        for _ in range(length):
            number, draws = draws.next_int()
            letters.append(_LETTERS[(number & 0x7FFFFFFF) % len(_LETTERS)])
        out.append("".join(letters).encode())
    return out


def who_agrees(
    names: Sequence[str] | None = None, *, keys: int = 500, counts: Sequence[int] = COUNTS
) -> Agreement:
    """Find the Kafka client partitioners that place every key in the same partition.

    The partitioners are run on the same random keys, for several partition counts. If producers use
    partitioners of one group, their topics can be joined by key.

    Args:
        names: names from `partage.keys.partitioners`; None for all that use the key.
        keys: number of random keys to try.
        counts: partition counts to try; each key is placed at each of them.

    Raises:
        InvalidConfigError: ``names`` is a single string instead of a list.

    >>> found = who_agrees(["murmur2", "kafka-python", "sarama"], keys=50)
    >>> found.groups
    (('murmur2', 'kafka-python'), ('sarama:hash',))
    """
    reject_text(names, "names")
    chosen = tuple(find_partitioner(name).name for name in (by_key() if names is None else names))
    test_keys = random_keys(keys)
    placed = np.stack([_place_at_each(name, test_keys, counts) for name in chosen])
    share = (placed[:, None, :] == placed[None, :, :]).mean(axis=2)
    groups: list[list[int]] = []
    for i in range(len(chosen)):
        agreeing = next((group for group in groups if share[group[0], i] == 1.0), None)
        if agreeing is None:
            groups.append([i])
        else:
            agreeing.append(i)
    return Agreement(
        chosen,
        share,
        tuple(tuple(chosen[i] for i in group) for group in groups),
        tuple(_describe_placement(name, None) for name in chosen),
        tuple(_describe_placement(name, b"") for name in chosen),
        len(test_keys),
        tuple(counts),
    )


def _place_at_each(name: str, keys: list[bytes], counts: Sequence[int]) -> NDArray[np.int32]:
    # One count after the other. Keys for streams:windowed get a window appended first.
    given = [key + _WINDOW for key in keys] if name == "streams:windowed" else keys
    return np.concatenate([partition_for(given, partitions=n, partitioner=name) for n in counts])


def _describe_placement(name: str, key: bytes | None) -> str:
    found = int(partition_for([key], partitions=1000, partitioner=name)[0])
    if found >= 0:
        return "hashed" if key is not None else "hashed as an empty key"
    machine = find_partitioner(name).machine
    return "left to the producer" if machine is None else machine.summary
