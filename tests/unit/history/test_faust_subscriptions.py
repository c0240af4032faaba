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
from partage.wire.faust import FaustMetadata, write_faust_subscription
from partage.wire.group_log import encode_record

SAID = write_faust_subscription(FaustMetadata({"words": [0]}, url="http://a:6066"))
SENT = b"\0\4" + encode_subscription(["words"], user_data=SAID, version=0)[2:]
GOT = b"\0\4" + encode_assignment([("words", 0)], user_data=b"z", version=0)[2:]


def _value(sent: bytes) -> dict:
    member = {
        "memberId": "a", "groupInstanceId": None, "clientId": "faust-0.15.3", "clientHost": "/h",
        "rebalanceTimeout": 60_000, "sessionTimeout": 60_000, "subscription": sent,
        "assignment": GOT,
    }  # fmt: skip
    return {"protocolType": "consumer", "generation": 1, "protocol": "faust", "leader": "a",
            "currentStateTimestamp": 5, "members": [member]}  # fmt: skip


def _by_columns(sent: bytes) -> ClassicState:
    _, raw = encode_record(2, {"group": "g"}, value=_value(sent), version=3)
    (some,) = classic_columns(BinaryColumn.from_rows([raw]), np.array([0]))
    ((_, state),) = ClassicStates().yield_states(some)
    return state


@pytest.mark.parametrize("state_of", [lambda sent: parse_classic_state(_value(sent)), _by_columns])
def test_a_faust_subscription_is_no_damage(state_of) -> None:
    """Topics, user data and assignment are there, and the group can be replayed."""
    state = state_of(SENT)
    (member,) = state.members
    assert member.damage is None
    assert member.subscription.version == 4
    assert (member.subscription.topics, member.subscription.user_data) == (("words",), SAID)
    assert member.assigned == (("words", (0,)),)
    assert unsupported_reason(state) is None


@pytest.mark.parametrize("raw", [SENT[:-1], SENT + b"!", b"\0\5" + SENT[2:], b"\0\1" + SENT[2:]])
def test_what_faust_does_not_send_is_damage(raw) -> None:
    """Bytes that end early or go on, and other versions, are damaged as before."""
    assert parse_payloads(raw, GOT)[-1] is not None


def test_the_decoder_of_kafka_still_raises() -> None:
    """`decode_subscription` does what Kafka's class does with these bytes."""
    with pytest.raises(WireFormatError):
        decode_subscription(SENT)
