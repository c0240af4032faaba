"""Java's hash order against what OpenJDK 17 printed, and against a literal model of its table."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partage.java import hash_order, strings, uuids

VECTORS = Path(__file__).parents[2] / "data" / "vectors" / "consumer" / "javaorder.jsonl"
LINES = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]


def _uuid_hash(text):
    return uuids.uuid_hash(base64.urlsafe_b64decode(text + "=="))


HASH = {
    "string": strings.string_hash,
    "uuid": _uuid_hash,
    "tp": lambda pair: hash_order.topic_partition_hash(*pair),
    "int": lambda number: number,
}


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_hashes_and_order_are_those_of_the_jdk(line):
    """Every vector: hash of each value, and the order of the set or of its copy."""
    hash_of = HASH[line["type"]]
    values = [tuple(v) if isinstance(v, list) else v for v in line["values"]]
    assert [hash_of(v) for v in values] == line["out"]["hash"]
    order = hash_order.hash_set_order(values, hash_of)
    if line.get("copy"):
        table = hash_order.copied_hash_set_table(len(order))
        order = hash_order.hash_set_order(order, hash_of, table=table)
    shown = [f"{v[0]}-{v[1]}" if line["type"] == "tp" else str(v) for v in order]
    assert shown == line["out"]["order"]


def test_the_printed_examples_of_member_names():
    """member0..member12 and c01..c20, where the table doubles in between."""

    def numbers(names):
        return [
            int(re.sub("[a-z]+", "", n)) for n in hash_order.hash_set_order(names, HASH["string"])
        ]

    members = [f"member{i}" for i in range(13)]
    assert numbers(members[:12]) == [8, 11, 9, 6, 7, 10, 4, 5, 2, 3, 0, 1]
    assert numbers(members) == [8, 11, 9, 12, 6, 7, 10, 4, 5, 2, 3, 0, 1]
    expected = "20 11 10 02 13 01 12 04 15 03 14 06 17 05 16 08 19 07 18 09"
    assert numbers([f"c{i:02}" for i in range(1, 21)]) == [int(n) for n in expected.split()]


class Table:
    """A hash table kept as real buckets, one call at a time: slow, and plainly Java's."""

    def __init__(self, slots):
        self.buckets = [[] for _ in range(slots)]
        self.size = 0

    def double(self):
        old, n = self.buckets, 2 * len(self.buckets)
        self.buckets = [[] for _ in range(n)]
        for bucket in old:
            for key in bucket:
                self.buckets[self.slot(key)].append(key)

    def slot(self, key):
        h = key & 0xFFFFFFFF
        return (h ^ h >> 16) & (len(self.buckets) - 1)

    def full(self):
        return self.size > int(0.75 * len(self.buckets))

    def put(self, key):
        bucket = self.buckets[self.slot(key)]
        if key in bucket:
            return
        bucket.append(key)
        if len(bucket) >= 9 and len(self.buckets) < 64:
            self.double()
        self.size += 1
        if self.full():
            self.double()

    def compute_if_absent(self, key):
        if self.full():
            self.double()
        bucket = self.buckets[self.slot(key)]
        if key in bucket:
            return
        bucket.insert(0, key)
        if len(bucket) >= 8 and len(self.buckets) < 64:
            self.double()
        self.size += 1

    def order(self):
        return [key for bucket in self.buckets for key in bucket]


KEYS = st.lists(
    st.one_of(
        st.integers(0, 40),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(0, 30).map(lambda i: i * 64),
    ),
    max_size=120,
)


@given(keys=KEYS, exponent=st.integers(0, 5), compute=st.booleans())
def test_order_equals_a_table_of_real_buckets(keys, exponent, compute):
    """Growth by load and by crowding, collisions and repeated calls, both ways of insertion."""
    table = Table(1 << exponent)
    for key in keys:
        (table.compute_if_absent if compute else table.put)(key)
    order = hash_order.hash_set_order(
        keys, lambda key: key, table=1 << exponent, compute_if_absent=compute
    )
    assert order == table.order()


def test_compute_if_absent_puts_the_last_of_a_bucket_first():
    """The claims [Aa, BB] are walked as BB, Aa: the keys share a hash."""
    order = hash_order.hash_set_order(["Aa", "BB"], HASH["string"], compute_if_absent=True)
    assert order == ["BB", "Aa"]


@pytest.mark.parametrize(
    ("put", "walked"),
    [
        ("1w6nu6nxc5idi 1k9fgraeylizn 1l6caw6e8kq6b rlzh38kdqnje -1vaz1wsv41xix", "1 2 4 3 0"),
        (
            "n4y0jn2rf0je -14k25tfex7yig -1noxdqnqmd1wk ej8g106srf2o -66coc0gstm25 mk1orkrh0tos"
            " 1s1fh1nxl7rv4 1edr8x7cu7ap",
            "5 2 1 7 4 3 6 0",
        ),
    ],
)
def test_a_timeline_map_is_walked_as_kafka_walks_it(put: str, walked: str) -> None:
    """``TimelineHashMap`` of kafka-server-common 4.3.1, every key put twice, printed these orders."""
    names = put.split()
    slots = hash_order.timeline_slots(len(names))
    order = hash_order.timeline_order([strings.string_hash(name) for name in names], slots)
    assert order == [int(place) for place in walked.split()]
