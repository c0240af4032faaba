"""The table of distinct keys: a Counter, whatever the keys, in both forms of its kernels."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from partage.kernels import force_kernel_form
from partage.keys.distinct import DistinctKeys

FORMS = pytest.mark.parametrize("chosen", ["compiled", "interpreted"])


def _column(keys: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.concatenate([[0], np.cumsum([len(key) for key in keys])]).astype(np.int64)
    return np.frombuffer(b"".join(keys), np.uint8), starts


def _counted(table: DistinctKeys) -> dict[bytes, tuple[int, int]]:
    found = table.counted_keys()
    keys = [found.data[a:b].tobytes() for a, b in pairwise(found.starts.tolist())]
    assert len(set(keys)) == len(keys) == len(table)
    return dict(zip(keys, zip(found.records.tolist(), found.bytes.tolist(), strict=True),
                    strict=True))  # fmt: skip


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    """9,000 keys of 0 to 31 bytes over 2,000 distinct ones, many alike but for one byte or zeros."""
    rng = random.Random(3)
    lengths = (0, 1, 3, 7, 8, 9, 15, 16, 17, 24, 31)
    some = [rng.randbytes(rng.choice(lengths)) for _ in range(1_000)]
    some += [bytes(n) for n in range(20)] + [key + b"\0" for key in some[:500]]
    some += [key[:-1] + bytes([key[-1] ^ 128]) for key in some if key]
    return [rng.choice(some) for _ in range(9_000)]


@FORMS
@pytest.mark.parametrize("sized", [False, True])
def test_it_counts_what_a_counter_counts(keys: list[bytes], chosen, *, sized: bool) -> None:
    """Records and bytes of each distinct key, over several batches and while the table grows."""
    with force_kernel_form(chosen):
        table = DistinctKeys(sized=sized)
        for first in range(0, len(keys), 3_500):
            table.count_batch(*_column(keys[first : first + 3_500]))
        counts = Counter(keys)
        assert _counted(table) == {key: (n, n * len(key)) for key, n in counts.items()}
        table.remove_keys()
        assert len(table) == 0
        table.count_batch(*_column([b"12345678"]))
        assert _counted(table) == {b"12345678": (1, 8)}


@FORMS
def test_nulls_times_and_sizes(chosen) -> None:
    """Null keys are not counted; a key may come with its records and their bytes."""
    with force_kernel_form(chosen):
        table = DistinctKeys(sized=True)
        null = np.array([False, True, False])
        times, sizes = np.array([5, 7, 2]), np.array([50, 70, 9])
        table.count_batch(*_column([b"a", b"a", b"bc"]), null=null, times=times, sizes=sizes)
        assert _counted(table) == {b"a": (5, 50), b"bc": (2, 9)}


def test_both_forms_hash_alike(keys: list[bytes]) -> None:
    """Workers that compile and workers that do not put a key into the same bucket."""
    hashes = []
    for chosen in ("compiled", "interpreted"):
        with force_kernel_form(chosen):
            table = DistinctKeys()
            table.count_batch(*_column(keys))
            hashes.append(table.counts_and_offsets()[1][1].tolist())
    assert hashes[0] == hashes[1]
    # Only zeros that fill up a word look like zeros of the key itself: 295 of 2,558 here.
    assert len(set(hashes[0])) >= len({key.rstrip(b"\0") for key in keys}) - 1


def test_a_key_of_megabytes_among_small_ones() -> None:
    """A long key takes the room that it needs, and no other loses a byte."""
    long = [bytes([i]) * (2_000_000 + i) for i in range(3)]
    with force_kernel_form("compiled"):
        table = DistinctKeys()
        table.count_batch(*_column([b"a", *long, b"b", long[1], b"a"]))
        counted = _counted(table)
    assert counted == {b"a": (2, 2), b"b": (1, 1), long[0]: (1, 2_000_000),
                       long[1]: (2, 4_000_002), long[2]: (1, 2_000_002)}  # fmt: skip


@pytest.mark.parametrize("width", [16, 7])
def test_keys_with_the_same_hash_are_not_the_same(width: int) -> None:
    """Of 200,000 random keys some have the 31 bits of another one: each is counted by itself."""
    count = 200_000
    data = np.random.default_rng(width).integers(0, 256, count * width, np.uint8)
    with force_kernel_form("compiled"):
        table = DistinctKeys()
        table.count_batch(data, np.arange(count + 1, dtype=np.int64) * width)
        _, heads = table.counts_and_offsets()
    assert len(np.unique(heads[1])) < count
    assert len(table) == count == len({key.tobytes() for key in data.reshape(-1, width)})
    assert set(heads[2].tolist()) == {1}


@FORMS
def test_keys_of_the_last_slot_go_round_to_the_first(chosen) -> None:
    """A slot that is taken at the end of the table is followed by the first one, when it grows too."""
    raw = np.random.default_rng(7).integers(0, 256, (200_000, 8), np.uint8)
    with force_kernel_form("compiled"):
        table = DistinctKeys()
        table.count_batch(raw.reshape(-1), np.arange(len(raw) + 1, dtype=np.int64) * 8)
        tags = table.counts_and_offsets()[1][1]
    last = [raw[i].tobytes() for i in np.flatnonzero(tags >> 17 == (1 << 14) - 1)]
    assert len(last) > 4
    with force_kernel_form(chosen):
        table = DistinctKeys()
        table.count_batch(*_column([*last, *last]))
        assert _counted(table) == dict.fromkeys(last, (2, 16))
        others = [raw[i].tobytes() for i in range(8_300)]
        table.count_batch(*_column([*others, *last]))
        counted = _counted(table)
        assert {counted[key][0] for key in last} <= {3, 4}
        assert len(counted) == len({*others, *last})
