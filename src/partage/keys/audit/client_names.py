"""Names of the clients that use a partitioner, and the settings that make clients agree.

Keys show a hash only. Which client uses it by default was read from the published packages
(docs/keys.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = ["advise_settings", "find_clients", "hash_name", "label_clients", "select_by_null_keys"]

#: Clients in a short name.
_NAMED = 2
#: Part of the name of a client that does not use its default.
_SET = " set to "
#: Name of `KeyPart.WHOLE`.
_WHOLE = "the whole key"

#: Partitioner -> name of its hash.
_HASHES = {
    "murmur2": "murmur2", "librdkafka:consistent": "CRC32", "sarama:hash": "FNV-1a",
    "sarama:reference": "FNV-1a, reference", "scala:0.8.1": "String.hashCode, 0.8.1",
    "scala:0.8.2": "String.hashCode, 0.8.2", "scala:0.8.1:bytes": "Arrays.hashCode, 0.8.1",
    "scala:0.8.2:bytes": "Arrays.hashCode, 0.8.2",
}  # fmt: skip
#: (partitioner, client), clients that need no setting first.
_CLIENTS = (
    ("java:builtin", "Java"), ("kafka-python", "kafka-python"), ("aiokafka", "aiokafka"),
    ("franz-go:sticky-key", "franz-go"), ("librdkafka:consistent_random", "confluent-kafka"),
    ("sarama:hash", "Sarama"), ("librdkafka:murmur2_random", "confluent-kafka set to murmur2"),
    ("librdkafka:fnv1a_random", "confluent-kafka set to fnv1a"),
    ("sarama:murmur2", "Sarama set to murmur2"), ("sarama:crc32", "Sarama set to CRC32"),
    ("sarama:reference", "Sarama's reference hash"),
    ("franz-go:sarama-compat", "franz-go set to Sarama's hash"), ("scala:0.8.1", "Scala 0.8.1"),
    ("scala:0.8.2", "Scala 0.8.2"), ("scala:0.8.1:bytes", "Scala 0.8.1 with bytes"),
    ("scala:0.8.2:bytes", "Scala 0.8.2 with bytes"),
)  # fmt: skip
#: Behaviour of keyless records -> clients that show it without further settings.
_KEYLESS = {
    "sticky": {"Java", "franz-go", "confluent-kafka", "confluent-kafka set to murmur2",
               "confluent-kafka set to fnv1a"},
    "drawn for each record": {"kafka-python", "aiokafka", "Sarama", "Sarama set to murmur2",
                              "Sarama set to CRC32", "Sarama's reference hash",
                              "confluent-kafka", "confluent-kafka set to murmur2"},
}  # fmt: skip
_TO_MURMUR2 = (
    ("librdkafka:", "partitioner=murmur2_random in librdkafka (confluent-kafka, and the clients of "
     "C#, Go, Node, PHP and Rust on it)"),
    ("sarama:", "config.Producer.Partitioner = sarama.NewMurmur2Partitioner in Sarama"),
    ("scala:", "Kafka's Java producer instead of the Scala one"),
)  # fmt: skip


def hash_name(partitioners: Collection[str]) -> str:
    """Return the name of the hash function, such as CRC32, that equivalent partitioners use.

    Partitioners are equivalent if they place every key in the same partition. If the hash function
    is not known, the result is the name of the first partitioner.

    >>> hash_name(["librdkafka:consistent", "sarama:crc32"])
    'CRC32'
    """
    known = (hash_name for name, hash_name in _HASHES.items() if name in partitioners)
    return next(known, next(iter(partitioners), "unknown"))


def find_clients(partitioners: Collection[str]) -> list[str]:
    """Return the Kafka client libraries, such as Sarama, that offer one of the partitioners.

    ``partitioners`` are names. Libraries that use one of them by default come before libraries that
    need a setting.

    >>> find_clients(["librdkafka:consistent_random", "sarama:crc32"])
    ['confluent-kafka', 'Sarama set to CRC32']
    """
    known = [client for name, client in _CLIENTS if name in partitioners]
    return known or list(partitioners)[:1]


def select_by_null_keys(clients: Sequence[str], behaviour: str) -> list[str]:
    """Keep only the client libraries that would place records without a key as observed in a topic.

    For example, if these records were spread at random, a library that places them round robin
    cannot have written the topic. If no library remains, all are returned.

    Args:
        clients: names of the libraries.
        behaviour: the observed placement, such as "sticky" (`NullKeys.behaviour`).

    >>> select_by_null_keys(["Java", "kafka-python", "aiokafka"], "drawn for each record")
    ['kafka-python', 'aiokafka']
    """
    may = _KEYLESS.get(behaviour)
    return [c for c in clients if may is None or c in may] or list(clients)


def label_clients(clients: Sequence[str], hashed: str, part: str = _WHOLE) -> str:
    """Return a short label for the client libraries that may have written a topic.

    An example is "Java, kafka-python (murmur2)". Libraries that need a certain setting are only
    named if there are no others.

    Args:
        clients: names of the libraries, most likely first.
        hashed: name of the hash function.
        part: the part of the key that is hashed.

    >>> label_clients(["Java", "kafka-python", "aiokafka"], "murmur2")
    'Java, kafka-python, ... (murmur2)'
    """
    unset = [client for client in clients if _SET not in client] or list(clients)
    more = ["..."] if len(clients) > len(unset[:_NAMED]) else []
    of = "" if part == _WHOLE else f" of {part}"
    named = ", ".join([*unset[:_NAMED], *more])
    return named if named == hashed and not of else f"{named} ({hashed}{of})"


def advise_settings(families: Iterable[Collection[str]]) -> str:
    """Advise which partitioner to configure in which client, so that topics can be joined.

    With these settings all clients place equal keys in equal partitions. ``families`` has one entry
    for each client that wrote to the topics: the equivalent partitioners that it may have used.

    >>> advice = advise_settings([["murmur2"], ["librdkafka:consistent_random", "sarama:crc32"]])
    >>> advice.split(" (")[0]
    'set partitioner=murmur2_random in librdkafka'
    """
    names = {name for family in families if "murmur2" not in family for name in family}
    # Clients that use a family by default come first; others only if there is no such client.
    by_default = {n for n in names if n in ("librdkafka:consistent_random", "sarama:hash")}
    meant = by_default or names
    settings = [how for prefix, how in _TO_MURMUR2 if any(n.startswith(prefix) for n in meant)]
    if not settings:
        return "let all of them use one partitioner"
    return (
        f"set {'; or '.join(settings)}: as Java, kafka-python, aiokafka and franz-go do. "
        "Keys written until then stay where they are"
    )
