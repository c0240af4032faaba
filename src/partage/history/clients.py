"""Which client library a member is, told from the bytes that it sent.

No record names the library. But libraries differ in how they write the consumer protocol's
subscription, and the coordinator stores those bytes as they came:

| fact                                  | who writes so                                        |
|---------------------------------------|------------------------------------------------------|
| version 3, rack **null** or a name    | Java 3.5 and later                                   |
| version 3, rack **empty**             | librdkafka (it has no null string here)              |
| user data **null** (length -1)        | Java, where the strategy has none to send            |
| user data **empty** (length 0)        | librdkafka, kafka-python, aiokafka                   |
| version 0, user data empty            | kafka-python, aiokafka; librdkafka of old            |
| version 1, user data empty            | kafka-python (cooperative), librdkafka before racks  |
| `client.id` never set                 | "consumer-GROUP-n" Java, "rdkafka", "kafka-python-…",|
|                                       | "aiokafka-…" - each library's own default            |

Members of the new protocols (KIP-848, KIP-932, KIP-1071) send no such bytes; there the form of the
member id tells in one of two cases.

Certainty: ``certain`` where the library's own default client id and the bytes say the same;
``likely`` where the bytes alone speak (Go clients that copy Java's layout byte for byte look
like Java: franz-go, and Sarama in its older versions); ``unknown`` where they do not decide:
a member with a rack *and* user data of version 3 may be either Java or librdkafka, except
that Java's cooperative-sticky sends exactly four bytes (its generation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partage.groups import registry
from partage.groups.api import Strategy
from partage.history.records import ClassicState, MemberState, Subscription

__all__ = [
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


#: kafka-python and aiokafka write the same bytes; only their default client ids part them.
PYTHON = "kafka-python or aiokafka"


UNKNOWN = "unknown"


#: Characters of a drawn member id: 16 bytes in base64 without padding.
_DRAWN_ID = 22


#: Default client ids: what a library calls itself when nobody sets ``client.id``.
_DEFAULTS = (
    ("kafka-python-", "kafka-python", PYTHON),
    ("aiokafka-", "aiokafka", PYTHON),
    ("rdkafka", LIBRDKAFKA, LIBRDKAFKA),
    ("consumer-", JAVA, JAVA),
)


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A library's name, and how sure it is: certain, likely or unknown."""

    name: str
    certainty: str


def identify_client(member: MemberState) -> ClientLibrary:
    """The library of a member of a classic group of protocol type ``consumer``.

    >>> sent = Subscription(3, ("t",), user_data=None, rack=None)
    >>> member = MemberState("m", None, "app", "", 0, 0, sent, (), 3, None, None)
    >>> identify_client(member)
    ClientLibrary(name='java', certainty='likely')
    """
    if member.subscription is None:
        return ClientLibrary(UNKNOWN, "unknown")
    heartbeats = member.subscription.version < 0  # KIP-848: no bytes of the client's own
    by_bytes = _by_id(member.id) if heartbeats else _by_bytes(member.subscription)
    for prefix, name, family in _DEFAULTS:
        if member.client_id.startswith(prefix) and by_bytes == family:
            return ClientLibrary(name, "certain")
    return ClientLibrary(by_bytes, "unknown" if by_bytes == UNKNOWN else "likely")


def _by_id(member: str) -> str:
    """The library by the member id, which clients of the new protocols draw themselves.

    Both draw 16 random bytes; Java writes them in URL-safe base64, librdkafka in the ordinary
    one. An id in two has a character that tells.
    """
    if len(member) != _DRAWN_ID:
        return UNKNOWN
    if {"+", "/"} & set(member):
        return LIBRDKAFKA
    return JAVA if {"-", "_"} & set(member) else UNKNOWN


def _by_bytes(sent: Subscription) -> str:
    if sent.version >= 3 and sent.rack == "":
        return LIBRDKAFKA
    if sent.user_data is None:
        return JAVA
    if sent.user_data == b"":
        if sent.version >= 3:
            return LIBRDKAFKA
        return PYTHON if sent.version in (0, 1) else UNKNOWN
    if sent.version >= 3 and (sent.rack is None or len(sent.user_data) == 4):
        return JAVA
    if sent.version < 2:
        return PYTHON if not sent.owned and sent.version == 0 else UNKNOWN
    return UNKNOWN


#: What may be meant where bytes tell no more.
_EITHER = {PYTHON: ("kafka-python", "aiokafka")}


def leader_client(state: ClassicState) -> str | None:
    """The library of the member that led a generation; None if nobody did.

    >>> leader_client(ClassicState("consumer", 1, "range", None, None, ())) is None
    True
    """
    leader = next((m for m in state.members if m.id == state.leader), None)
    return None if leader is None else identify_client(leader).name


def candidate_strategies(state: ClassicState, strategy: Strategy) -> Sequence[Strategy]:
    """Return the strategies that the recorded plan may be of: the leader's dialects, or Java's.

    kafka-python and aiokafka write the same bytes; where both have a dialect, both may be meant.
    """
    client = leader_client(state) or UNKNOWN
    # Only dialects are looked up: a name of the form module:Class would be imported.
    names = [f"{peer}:{strategy.name}" for peer in _EITHER.get(client, (client,))]
    return [registry.find(name) for name in names if registry.is_dialect(name)] or [strategy]
