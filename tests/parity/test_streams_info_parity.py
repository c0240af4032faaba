"""SubscriptionInfo and AssignmentInfo against the released classes: random values, and damage."""

from __future__ import annotations

import base64
import json
import random

import pytest
from tests.support.jvm import JvmOracle
from tests.support.streams_made import made_assignment, made_subscription
from tests.support.streams_samples import (
    assignment_of,
    assignment_view,
    java_name,
    repr_key,
    subscription_of,
    subscription_view,
)
from tests.support.wire_damage import damaged

from partage.errors import WireFormatError
from partage.wire.streams.assignment_info import decode_assignment_info, encode_assignment_info
from partage.wire.streams.subscription_info import (
    decode_subscription_info,
    encode_subscription_info,
)

pytestmark = [pytest.mark.jvm, pytest.mark.parity]


def _text(data):
    return base64.b64encode(data).decode()


def _in_order(shown):
    """Kafka's maps come in no order; ours are sorted.

    Half a surrogate pair is a character to both, but Java prints it as a question mark.
    """
    shown = json.loads(json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace"))
    for name in ("offsets", "prev", "standby"):
        if name in shown:
            shown[name] = sorted(
                shown[name], key=lambda one: repr_key(one[0] if isinstance(one[0], list) else one)
            )
    for name in ("hosts", "standbyHosts"):
        if name in shown:
            shown[name] = sorted([h, p, _sorted(own)] for h, p, own in shown[name])
    if "tags" in shown:
        shown["tags"] = sorted(shown["tags"])
    if "common" in shown:
        shown["standby"] = [[task, _sorted(own)] for task, own in shown["standby"]]
    return shown


def _sorted(partitions):
    return sorted(partitions, key=lambda one: (one[0].encode("utf-16-be", "surrogatepass"), one[1]))


def _ask(requests):
    with JvmOracle("StreamsInfos") as oracle:
        return list(oracle.ask_all(requests))


def _same_refusal(error, theirs, asked, *, writing=True):
    """Kafka's exception, which must be that of our error."""
    assert theirs == {"error": java_name(error, writing=writing)}, asked
    return theirs["error"]


def test_subscriptions_are_those_of_the_released_class(parity_n):
    """Bytes of random arguments in every version, the object read back, or the same refusal."""
    rng = random.Random(441)
    asked = [made_subscription(rng) for _ in range(parity_n)]
    kinds = set()
    for line, theirs in zip(asked, _ask(asked), strict=True):
        try:
            data = encode_subscription_info(subscription_of(line))
        except WireFormatError as error:
            kinds.add(_same_refusal(error, theirs, line))
            continue
        assert _text(data) == theirs["bytes"], line
        info = decode_subscription_info(data)
        assert _in_order(subscription_view(info)) == _in_order(theirs["decoded"]), line
        assert encode_subscription_info(info) == data
        kinds.add(line["version"])
    assert kinds >= {*range(1, 12), "IllegalArgumentException", "TaskAssignmentException"}


def test_assignments_are_those_of_the_released_class(parity_n):
    """Bytes of random arguments in every version, the object read back, or the same refusal."""
    rng = random.Random(925)
    asked = [made_assignment(rng) for _ in range(parity_n)]
    kinds = set()
    for line, theirs in zip(asked, _ask(asked), strict=True):
        try:
            data = encode_assignment_info(assignment_of(line))
        except WireFormatError as error:
            kinds.add(_same_refusal(error, theirs, line))
            continue
        assert _text(data) == theirs["bytes"], line
        info = decode_assignment_info(data)
        assert _in_order(assignment_view(info)) == _in_order(theirs["decoded"]), line
        assert encode_assignment_info(info) == data
        kinds.add(line["version"])
    assert kinds >= {*range(1, 12), "IllegalArgumentException", "TaskAssignmentException"}


def _damaged(rng, make, encode, of):
    while True:
        try:
            data = encode(of(make(rng)))
        except WireFormatError:
            continue
        return data if rng.random() < 0.1 else damaged(data, rng)


def test_damaged_subscriptions_are_read_as_by_the_released_class(parity_n):
    """The same values and, of what can be read, the same bytes again; or the same refusal."""
    rng = random.Random(55)
    payloads = [
        _damaged(rng, made_subscription, encode_subscription_info, subscription_of)
        for _ in range(parity_n)
    ]
    answers = _ask([{"what": "subscription", "bytes": _text(data)} for data in payloads])
    taken = 0
    for data, theirs in zip(payloads, answers, strict=True):
        try:
            info = decode_subscription_info(data)
            ours = {"decoded": _in_order(subscription_view(info))}
        except WireFormatError as error:
            # Below version 1 Kafka reads on before it refuses; a tag that is there twice is found
            # when the tags are asked for.
            assert "error" in theirs, data.hex()
            if error.version >= 1 and "twice" not in str(error):
                _same_refusal(error, theirs, data.hex(), writing=False)
            continue
        assert ours["decoded"] == _in_order(theirs["decoded"]), data.hex()
        if not info.is_future():
            assert _text(encode_subscription_info(info)) == theirs["again"], data.hex()
        taken += 1
    assert parity_n // 20 < taken < parity_n


def test_damaged_assignments_are_read_as_by_the_released_class(parity_n):
    """The same values or a refusal of both; a topic that the dictionary lacks is null to Kafka."""
    rng = random.Random(56)
    payloads = [
        _damaged(rng, made_assignment, encode_assignment_info, assignment_of)
        for _ in range(parity_n)
    ]
    answers = _ask([{"what": "assignment", "bytes": _text(data)} for data in payloads])
    taken = 0
    for data, theirs in zip(payloads, answers, strict=True):
        try:
            info = decode_assignment_info(data)
        except WireFormatError as error:
            lacking = "dictionary has no topic" in str(error)
            if lacking and "error" not in theirs:
                hosts = theirs["decoded"]["hosts"] + theirs["decoded"]["standbyHosts"]
                assert any(topic is None for *_, own in hosts for topic, _ in own), data.hex()
            else:
                assert theirs == {"error": "TaskAssignmentException"}, data.hex()
            continue
        assert _in_order(assignment_view(info)) == _in_order(theirs["decoded"]), data.hex()
        again = encode_assignment_info(info)
        assert assignment_view(decode_assignment_info(again)) == assignment_view(info)
        taken += 1
    assert parity_n // 20 < taken < parity_n
