"""Kernels that hash keys, at the ends of what a word can hold: all forms are plain Python's.

Python's numbers never wrap; a compiler may take a product that would wrap for impossible, and
drop the mask after it. So keys here are the words of which products are largest.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from partage.kernels import force_kernel_form
from partage.keys.distinct import DistinctKeys
from partage.keys.hashing import CRC32, FNV1A, JAVA_BYTES, JAVA_STRING, MURMUR2, hash_all

FORMS = pytest.mark.parametrize("chosen", ["compiled", "interpreted"])
ALL = [MURMUR2, FNV1A, CRC32, JAVA_BYTES, JAVA_STRING]
#: Around each way in which a length is treated: words, words and a rest, long, too long.
LENGTHS = (0, 1, 4, 7, 8, 12, 16, 17, 20, 36, 63, 64, 65, 68, 1024, 8188, 8192, 8196)


def _keys(length: int, count: int, letters: int = 256) -> list[bytes]:
    """Zeros, the largest bytes, sign bits alone, and any."""
    rng = random.Random(length)
    ends = [bytes([b % letters]) * length for b in (0xFF, 0x00, 0x80, 0x7F)]
    ends += [(b"\0\0\0\x80" * length)[:length], (b"\xff\xff\xff\x7f" * length)[:length]]
    some = [bytes(b % letters for b in rng.randbytes(length)) for _ in range(count)]
    return [key if letters == 256 else bytes(b % letters for b in key) for key in ends + some]


@FORMS
@pytest.mark.parametrize("hash_", ALL, ids=lambda hash_: hash_.name)
def test_keys_of_one_length_at_the_ends_of_a_word(hash_, chosen) -> None:
    """Each length on its own, beginning at any byte, four keys at a time and what is left over."""
    letters = 128 if hash_ is JAVA_STRING else 256
    with force_kernel_form(chosen):
        for length in LENGTHS:
            for count in (3, 4, 5) if length > 100 else (3, 60, 61, 62):
                keys = _keys(length, count, letters)
                skipped = count % 4
                data = np.frombuffer(b"x" * skipped + b"".join(keys), np.uint8)
                starts = skipped + np.arange(len(keys) + 1) * length
                want = [hash_.hash_key(key) for key in keys]
                assert hash_all(hash_, data, starts).tolist() == want, length


@FORMS
@pytest.mark.parametrize("hash_", ALL, ids=lambda hash_: hash_.name)
def test_keys_of_all_lengths_at_the_ends_of_a_word(hash_, chosen) -> None:
    """The same keys in one column, long ones among short ones."""
    letters = 128 if hash_ is JAVA_STRING else 256
    keys = [key for length in LENGTHS[:-3] for key in _keys(length, 2, letters)]
    data = np.frombuffer(b"".join(keys), np.uint8)
    starts = np.cumsum([0, *map(len, keys)])
    with force_kernel_form(chosen):
        assert hash_all(hash_, data, starts).tolist() == [hash_.hash_key(key) for key in keys]


def test_the_table_hashes_words_at_their_ends_alike() -> None:
    """Hashes of the table of distinct keys: 31 bits, the same compiled and as plain Python.

    Only keys whose last words are alike once they are filled up with zeros share one.
    """
    keys = list(dict.fromkeys(key for length in LENGTHS[:-3] for key in _keys(length, 2)))
    data = np.frombuffer(b"".join(keys), np.uint8)
    hashes = []
    for chosen in ("compiled", "interpreted"):
        with force_kernel_form(chosen):
            table = DistinctKeys()
            table.count_batch(data, np.cumsum([0, *map(len, keys)]))
            hashes.append(table.counts_and_offsets()[1][1])
    assert hashes[0].tolist() == hashes[1].tolist()
    assert hashes[0].min() >= 0
    assert hashes[0].max() < 2**31
    words = {key + b"\0" * (-len(key) % 8) for key in keys}
    assert len(set(hashes[0].tolist())) == len(words) < len(keys)
