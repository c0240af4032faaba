"""The client library of a member, identified by the bytes that it sent.

No record names the library. But libraries differ in how they write the consumer protocol's
subscription, and the coordinator stores those bytes unchanged:

| fact                                  | libraries                                            |
|---------------------------------------|------------------------------------------------------|
| version 3, rack **null** or a name    | Java 3.5 and later                                   |
| version 3, rack **empty**             | librdkafka (it has no null string here)              |
| user data **null** (length -1)        | Java, where the strategy sends none                  |
| user data **empty** (length 0)        | librdkafka, kafka-python, aiokafka                   |
| version 0, user data empty            | kafka-python, aiokafka; old librdkafka               |
| version 1, user data empty            | kafka-python (cooperative), librdkafka before racks  |
| `client.id` never set                 | "consumer-GROUP-n" Java, "rdkafka", "kafka-python-…",|
|                                       | "aiokafka-…", "kgo", "sarama": each library's default|

Members of the new protocols (KIP-848, KIP-932, KIP-1071) send no such bytes. The form of their
member id identifies the library in half of the cases.

Certainty is ``certain`` if the library's default client id and the bytes agree, ``likely`` if the
bytes alone decide, ``unknown`` if they do not. The Go clients franz-go and Sarama write Java's
layout byte for byte; only their default client ids, "kgo" and "sarama", identify them. A member
with a rack *and* user data of version 3 may be Java or librdkafka, except that Java's
cooperative-sticky sends exactly four bytes (its generation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partage.groups import registry
from partage.groups.api import Strategy
from partage.history.records import ClassicState, MemberState, Subscription

__all__ = [
    "GO_CLIENTS",
    "JAVA",
    "LIBRDKAFKA",
    "PYTHON",
    "UNKNOWN",
    "ClientLibrary",
    "candidate_strategies",
    "identify_client",
    "leader_client",
]

JAVA = "java"
LIBRDKAFKA = "librdkafka"
#: kafka-python and aiokafka write the same bytes; only their default client ids differ.
PYTHON = "kafka-python or aiokafka"
UNKNOWN = "unknown"
#: Go clients, whose sticky assignors depend on the order of Go's maps.
GO_CLIENTS = ("franz-go", "sarama")

#: Characters of a generated member id: 16 bytes in base64 without padding.
_GENERATED_ID = 22
#: Prefixes of default client ids, library, and library by its bytes.
_DEFAULTS = (
    ("kafka-python-", "kafka-python", PYTHON),
    ("aiokafka-", "aiokafka", PYTHON),
    ("rdkafka", LIBRDKAFKA, LIBRDKAFKA),
    ("consumer-", JAVA, JAVA),
    ("kgo", "franz-go", JAVA),
    ("sarama", "sarama", JAVA),
)
#: Libraries that the bytes cannot tell apart.
_SAME_BYTES = {PYTHON: ("kafka-python", "aiokafka")}


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """Name of a Kafka client library, for example ``librdkafka``, and how certain it is.

    The certainty is ``certain``, ``likely`` or ``unknown``.
    """

    name: str
    certainty: str


def identify_client(member: MemberState) -> ClientLibrary:
    """Return the Kafka client library that a group member uses.

    The log does not name it. It follows from the bytes of the member's subscription and from the
    default client id.

    >>> sent = Subscription(3, ("t",), user_data=None, rack=None)
    >>> member = MemberState("m", None, "app", "", 0, 0, sent, (), 3, None, None)
    >>> identify_client(member)
    ClientLibrary(name='java', certainty='likely')
    """
    if member.subscription is None:
        return ClientLibrary(UNKNOWN, "unknown")
    sends_heartbeats = member.subscription.version < 0  # KIP-848: no bytes of the client's own
    by_bytes = (
        _identify_by_member_id(member.id)
        if sends_heartbeats
        else _identify_by_subscription(member.subscription)
    )
    for prefix, name, family in _DEFAULTS:
        if member.client_id.startswith(prefix) and by_bytes == family:
            return ClientLibrary(name, "certain")
    return ClientLibrary(by_bytes, "unknown" if by_bytes == UNKNOWN else "likely")


def _identify_by_member_id(member: str) -> str:
    """Return the Kafka client library that generated a member id, such as Java or librdkafka.

    The result is ``unknown`` for about half of the ids.
    """
    # Java and librdkafka both generate 16 random bytes (KIP-848). Java writes them in URL-safe
    # base64, librdkafka in plain base64. About half of all ids contain a character in which the two
    # differ.
    if len(member) != _GENERATED_ID:
        return UNKNOWN
    if {"+", "/"} & set(member):
        return LIBRDKAFKA
    return JAVA if {"-", "_"} & set(member) else UNKNOWN


def _identify_by_subscription(subscription: Subscription) -> str:
    """Return the Kafka client library that wrote a subscription, judged by its encoding.

    For example, only librdkafka writes an empty rack. The result may be ``unknown``.
    """
    if subscription.version >= 3 and subscription.rack == "":
        return LIBRDKAFKA
    if subscription.user_data is None:
        return JAVA
    if subscription.user_data == b"":
        if subscription.version >= 3:
            return LIBRDKAFKA
        return PYTHON if subscription.version in (0, 1) else UNKNOWN
    if subscription.version >= 3 and (
        subscription.rack is None or len(subscription.user_data) == 4
    ):
        return JAVA
    if subscription.version < 2:
        return PYTHON if not subscription.owned and subscription.version == 0 else UNKNOWN
    return UNKNOWN


def leader_client(group_state: ClassicState) -> str | None:
    """Return the name of the client library of a group's leader; None without a leader.

    ``group_state`` is the recorded state of a classic group.

    >>> leader_client(ClassicState("consumer", 1, "range", None, None, ())) is None
    True
    """
    leader = next((m for m in group_state.members if m.id == group_state.leader), None)
    return None if leader is None else identify_client(leader).name


def candidate_strategies(group_state: ClassicState, strategy: Strategy) -> Sequence[Strategy]:
    """Return the implementations of an assignment strategy that a group's leader may have run.

    They are variants of the leader's client library if Partage has them, else Java's strategy.
    ``group_state`` is the recorded state of the group.
    """
    # kafka-python and aiokafka write the same bytes; if both have a variant, both are returned.
    client = leader_client(group_state) or UNKNOWN
    # Only dialects are looked up: a name of the form module:Class would be imported.
    names = [f"{peer}:{strategy.name}" for peer in _SAME_BYTES.get(client, (client,))]
    return [registry.find(name) for name in names if registry.is_dialect(name)] or [strategy]
