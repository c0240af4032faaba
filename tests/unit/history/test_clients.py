from __future__ import annotations

import pytest
from tests.support.captured import generations, group_records, parsed
from tests.support.rebuilt import rebalances

from partage.history.clients import (
    JAVA,
    LIBRDKAFKA,
    PYTHON,
    UNKNOWN,
    ClientLibrary,
    identify_client,
)
from partage.history.records import MemberState, Subscription

KIND = {"java": JAVA, "txn": JAVA, "streams": JAVA, "confluent": LIBRDKAFKA,
        "kafka-python": PYTHON, "aiokafka": PYTHON}  # fmt: skip


def member(sent: Subscription | None, client_id: str = "app") -> MemberState:
    return MemberState("m", None, client_id, "", 0, 0, sent, (), -1, None, None)


def test_every_member_of_the_recording_is_identified() -> None:
    """The bytes alone give the library of each of about a thousand members in one-client groups."""
    kinds = {g["name"]: g for g in parsed("groups.json")}
    checked = 0
    for group in group_records():
        known = kinds.get(group, {})
        if known.get("langs") or known.get("kind") not in KIND:
            continue
        for generation in generations(group):
            for m in generation.first.members:
                assert identify_client(m).name == KIND[known["kind"]], (group, m)
                checked += 1
    assert checked > 900


def test_a_group_of_all_four_languages_is_identified() -> None:
    """In the group with four clients, Java and two Python clients' bytes are all found."""
    found = {identify_client(m).name for g in generations("polyglot") for m in g.first.members}
    assert found >= {JAVA, PYTHON}


@pytest.mark.parametrize(
    ("sent", "client_id", "wanted"),
    [
        (Subscription(3, ("t",), None), "app", ClientLibrary(JAVA, "likely")),
        (Subscription(3, ("t",), None), "consumer-g-1", ClientLibrary(JAVA, "certain")),
        (Subscription(3, ("t",), b"", rack=""), "rdkafka", ClientLibrary(LIBRDKAFKA, "certain")),
        (Subscription(3, ("t",), b"", rack="a"), "app", ClientLibrary(LIBRDKAFKA, "likely")),
        (Subscription(3, ("t",), b"\0\0\0\1", rack="a"), "app", ClientLibrary(JAVA, "likely")),
        (Subscription(3, ("t",), b"\0" * 9, rack="a"), "app", ClientLibrary(UNKNOWN, "unknown")),
        (Subscription(0, ("t",), b""), "aiokafka-0.12.0", ClientLibrary("aiokafka", "certain")),
        (
            Subscription(1, ("t",), b""),
            "kafka-python-2.2",
            ClientLibrary("kafka-python", "certain"),
        ),
        (Subscription(0, ("t",), None), "app", ClientLibrary(JAVA, "likely")),
        # A client.id looks like a default, the bytes say otherwise: bytes win.
        (Subscription(3, ("t",), b"", rack=""), "consumer-9", ClientLibrary(LIBRDKAFKA, "likely")),
    ],
)
def test_facts_decide(sent: Subscription, client_id: str, wanted: ClientLibrary) -> None:
    """Each row of the table of facts, and the default client ids that make it certain."""
    assert identify_client(member(sent, client_id)) == wanted


def test_without_a_subscription_nothing_is_known() -> None:
    """Connect workers and damaged bytes have no library."""
    assert identify_client(member(None)) == ClientLibrary(UNKNOWN, "unknown")


def test_members_of_the_new_protocol_are_identified_by_their_ids() -> None:
    """Librdkafka's ids are ordinary base64, Java's are URL-safe: never the wrong one is named."""
    libraries: dict[str, set[str]] = {}
    for group in ("py-next", "clicks-v2", "near-readers", "pos-terminals", "work-queue"):
        members = (m for f in rebalances(group) for m in f.first.members)
        libraries[group] = {identify_client(m).name for m in members}
    assert libraries.pop("py-next") == {LIBRDKAFKA, UNKNOWN}
    assert all({JAVA} <= names <= {JAVA, UNKNOWN} for names in libraries.values())
