"""Subscriptions of Faust in a group's records: version 4 in the header, fields of version 0."""

from __future__ import annotations

import numpy as np
import pytest

from partage.errors import WireFormatError
from partage.history.problems import unsupported_reason
from partage.history.records import ClassicState, ClassicStates, parse_classic_state, parse_payloads
from partage.wire.columns import BinaryColumn
from partage.wire.columns.classic_groups import classic_columns
from partage.wire.consumer_protocol import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from partage.wire.faust import (
    FaustMetadata,
    write_faust_assignment,
    write_faust_subscription,
)
from partage.wire.group_log import encode_record

SAID = write_faust_subscription(FaustMetadata({"words": [0]}, url="http://a:6066"))
SENT = b"\0\4" + encode_subscription(["words"], user_data=SAID, version=0)[2:]
GOT = b"\0\4" + encode_assignment([("words", 0)], user_data=b"z", version=0)[2:]


def _value(sent: bytes, got: bytes = GOT) -> dict:
    member = {
        "memberId": "a", "groupInstanceId": None, "clientId": "faust-0.15.3", "clientHost": "/h",
        "rebalanceTimeout": 60_000, "sessionTimeout": 60_000, "subscription": sent,
        "assignment": got,
    }  # fmt: skip
    return {"protocolType": "consumer", "generation": 1, "protocol": "faust", "leader": "a",
            "currentStateTimestamp": 5, "members": [member]}  # fmt: skip


def _by_columns(value: dict) -> ClassicState:
    _, raw = encode_record(2, {"group": "g"}, value=value, version=3)
    (some,) = classic_columns(BinaryColumn.from_rows([raw]), np.array([0]))
    ((_, state),) = ClassicStates().yield_states(some)
    return state


BOTH_WAYS = pytest.mark.parametrize("state_of", [parse_classic_state, _by_columns])


@BOTH_WAYS
def test_a_faust_subscription_is_no_damage(state_of) -> None:
    """Topics, user data and assignment are there, and the group can be replayed."""
    state = state_of(_value(SENT))
    (member,) = state.members
    assert member.damage is None
    assert member.subscription.version == 4
    assert (member.subscription.topics, member.subscription.user_data) == (("words",), SAID)
    assert member.assigned == (("words", (0,)),)
    assert unsupported_reason(state) is None


@BOTH_WAYS
def test_standbys_of_a_faust_worker_are_not_assigned_to_it(state_of) -> None:
    """A worker consumes the changelog of its standbys too, but another worker owns these partitions."""
    said = FaustMetadata({"log": [0, 2], "words": [0, 2]}, {"log": [1, 2], "words": [1, 2]})
    got = encode_assignment(
        [("log", 0), ("log", 2), ("log", 1), ("log", 2), ("words", 0), ("words", 2), ("only", 1)],
        user_data=write_faust_assignment(said), version=0,
    )  # fmt: skip
    (member,) = state_of(_value(SENT, b"\0\4" + got[2:])).members
    assert member.assigned == (("log", (0, 2)), ("words", (0, 2)))
    assert member.damage is None
    (member,) = state_of(_value(SENT, b"\0\3" + got[2:])).members
    assert member.assigned[0] == ("log", (0, 2, 1, 2))


@pytest.mark.parametrize("raw", [SENT[:-1], SENT + b"!", b"\0\5" + SENT[2:], b"\0\1" + SENT[2:]])
def test_what_faust_does_not_send_is_damage(raw) -> None:
    """Bytes that end early or go on, and other versions, are damaged as before."""
    assert parse_payloads(raw, GOT)[-1] is not None


def test_the_decoder_of_kafka_still_raises() -> None:
    """`decode_subscription` does what Kafka's class does with these bytes."""
    with pytest.raises(WireFormatError):
        decode_subscription(SENT)
