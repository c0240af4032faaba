"""Records of classic groups by the column: always what the engine makes of each of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.support.wire_damage import damaged
from tests.support.wire_samples import recorded, unbase64, vectors

from partage import kernels
from partage.errors import WireFormatError
from partage.history.records import ClassicStates, parse_classic_state
from partage.wire.columns import BinaryColumn
from partage.wire.columns import classic_groups as module
from partage.wire.columns.classic_groups import classic_columns
from partage.wire.consumer_protocol import encode_assignment, encode_subscription
from partage.wire.group_log import decode_value, encode_record

CLASSIC = 2
FORMS = ["interpreted", "compiled"]


def _by_engine(value):
    """Version and state; None where the engine refuses the bytes."""
    try:
        version, fields = decode_value(CLASSIC, value)
    except WireFormatError:
        return None
    return version, parse_classic_state(fields)


def _agree(values, form="compiled", *, most_odd=0.0):
    """Every plain record is the engine's; what it refuses is odd, and little else is."""
    wanted = [_by_engine(value) for value in values]
    column, rows = BinaryColumn.from_rows(values), np.arange(len(values))
    states, odd, seen = ClassicStates(), [], []
    with kernels.force_kernel_form(form):
        for found in classic_columns(column, rows):
            versions = found.column_of_field("version").tolist()
            for version, (row, state) in zip(versions, states.yield_states(found), strict=True):
                assert (version, state) == wanted[row]
                seen.append(row)
            odd += found.odd.tolist()
    assert sorted(seen + odd) == list(range(len(values)))
    assert {i for i, one in enumerate(wanted) if one is None} <= set(odd)
    sound = [row for row in odd if wanted[row] is not None]
    assert len(sound) <= most_odd * len(values)


def _recorded():
    return [value for *_, key, value in recorded() if key[:2] == b"\0\2" and value]


@pytest.mark.parametrize("form", FORMS)
def test_every_recorded_state_is_the_engines(form):
    """479 generations of Java, librdkafka, Python and Streams clients, and what is rewritten."""
    values = _recorded()
    assert len(values) > 500
    _agree(values if form == "compiled" else values[::40], form)


@pytest.mark.parametrize("form", FORMS)
def test_vectors_of_every_version(form):
    """Kafka's own records of each value version, sound and damaged ones; unknown tags are odd."""
    found = [v["out"] for v in vectors("record")] + vectors("record-decode")
    pairs = [(unbase64(v["keyBytes"]), unbase64(v["valueBytes"])) for v in found]
    values = [value for key, value in pairs if key and key[:2] == b"\0\2" and value is not None]
    versions = {int.from_bytes(value[:2], "big") for value in values}
    assert set(range(5)) <= versions
    _agree(values, form, most_odd=0.2)


def _record(version, generation, members):
    value = {"protocolType": "consumer", "generation": generation, "protocol": "range",
             "leader": "m0", "currentStateTimestamp": 1, "members": members}  # fmt: skip
    return encode_record(CLASSIC, {"group": "g"}, version=version, value=value)[1]


def _member(name, *, version=3, assigned=((("t"), 0),), host="/h"):
    sent = encode_subscription(
        ["b", "a"], user_data=b"u", owned=[("a", 2)], generation=7, rack="r", version=version
    )
    return {"memberId": name, "groupInstanceId": None, "clientId": "c", "clientHost": host,
            "rebalanceTimeout": 5, "sessionTimeout": 6, "subscription": sent,
            "assignment": encode_assignment(assigned, version=version)}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_damaged_records_and_payloads(form):
    """Bytes cut, changed, doubled, or with lying lengths, in all versions: never another state."""
    rng = random.Random(5)
    sound = [
        _record(v, g, [_member(f"m{i}", version=p, assigned=[("t", i), ("s", g)]) for i in range(3)])
        for v in range(5) for p in range(4) for g in range(3)
    ] + _recorded()[::9]  # fmt: skip
    many = 1_500 if form == "compiled" else 60
    _agree([damaged(rng.choice(sound), rng) for _ in range(many)], form, most_odd=0.2)


def test_members_that_stay_are_the_same_object():
    """Equal bytes are one object, over batches too; what differs is another one."""
    rows = [_record(3, 1, [_member("a"), _member("b")]),
            _record(3, 2, [_member("a"), _member("b", host="/other")])]  # fmt: skip
    states, made = ClassicStates(), []
    for row in rows:
        for found in classic_columns(BinaryColumn.from_rows([row]), np.arange(1)):
            made += [state for _, state in states.yield_states(found)]
    first, second = made
    assert first.members[0] is second.members[0]
    assert first.members[1] != second.members[1]
    assert first.members[1].subscription is second.members[1].subscription


def test_the_same_bytes_in_two_versions_are_two_members():
    """Layouts differ: what one version has read says nothing about another."""
    values = [_record(v, v + 1, [_member("a"), _member("b")]) for v in (3, 2, 1, 0, 3, 4)]
    _agree(values)
    # A member of version 0 with a subscription of 6 bytes, whose bytes are also one of version 3
    # without any.
    both = bytes(10) + (6).to_bytes(4, "big") + b"\xab\xcd" + bytes(8)
    heads = [int.to_bytes(v, 2, "big") + bytes(2 + 4) + b"\xff\xff" * 2 for v in (0, 3)]
    one = (1).to_bytes(4, "big")
    made = [heads[0] + one + both, heads[1] + bytes(8) + one + both]
    _agree(made, most_odd=0.5)
    states, got = ClassicStates(), []
    for value in made:  # in batches of their own, too
        for found in classic_columns(BinaryColumn.from_rows([value]), np.arange(1)):
            got += [state for _, state in states.yield_states(found)]
    assert got == [_by_engine(value)[1] for value in made]
    assert got[0].members[0].session_timeout_ms != got[1].members[0].session_timeout_ms


def test_tables_grow_within_a_record(monkeypatch):
    """More members, topics and payloads than there is room for at first, in one record."""
    monkeypatch.setattr("partage.wire.columns.distinct.FIRST_NAMES", 16)
    for name in ("_BYTES_A_MEMBER", "_BYTES_A_TEXT"):
        monkeypatch.setattr(module, name, 1 << 30)
    members = [_member(f"m{i}", assigned=[(f"t{i}-{k}", k) for k in range(3)]) for i in range(900)]
    _agree([_record(3, 1, members), _record(3, 2, members[::2]), _record(4, 3, members)])


@pytest.mark.parametrize("form", FORMS)
def test_members_in_any_order_beside_other_ones(form):
    """Members are first compared with those of the record before: in whatever order they come."""
    rng, names = random.Random(5), [f"m{i}" for i in range(9)]
    values = []
    for number in range(60):
        there = rng.sample(names, rng.randrange(1, len(names)))
        members = [_member(n, host=rng.choice(["/a", "/b"]),
                           assigned=[("t", rng.randrange(3))]) for n in there]  # fmt: skip
        values.append(_record(rng.choice([1, 2, 3, 3, 4]), number, members))
    _agree(values, form)


def test_batches_are_cut_by_bytes(monkeypatch):
    """However many bytes are read at a time, a record larger than that included."""
    values = _recorded()[:80]
    for size in (1, 3_000, 20_000):
        monkeypatch.setattr(module, "_BYTES_AT_ONCE", size)
        _agree(values)


def test_a_count_takes_no_memory():
    """A record that claims two billion members is odd, and so is a payload that claims topics."""
    value = _record(3, 1, [])
    lying = value[:-4] + (0x7FFFFFFF).to_bytes(4, "big")
    member = _member("a") | {
        "subscription": b"\0\3\x7f\xff\xff\xff",
        "assignment": b"\0\3\x7f\xff\xff\xff",
    }
    (found,) = classic_columns(
        BinaryColumn.from_rows([lying, _record(3, 1, [member])]), np.arange(2)
    )
    assert found.odd.tolist() == [0]
    assert found.subscriptions.column_of_field("version").tolist() == [-1]
    _agree([lying, _record(3, 1, [member])])
