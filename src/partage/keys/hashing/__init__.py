"""32-bit hash functions of clients, for one key (reference) or a column of keys (compiled).

base      implementations of a hash, and the choice of the fastest for a column
murmur2   Kafka's Java client, kafka-python, aiokafka
crc32     librdkafka's default
fnv1a     Sarama
java31    ``hashCode`` of strings and byte arrays: Scala producer of 0.8
"""

from __future__ import annotations

from partage.keys.hashing.base import Hash, hash_all
from partage.keys.hashing.crc32 import CRC32, crc32
from partage.keys.hashing.fnv1a import FNV1A, fnv1a
from partage.keys.hashing.java31 import (
    JAVA_BYTES,
    JAVA_STRING,
    java_bytes_hash,
    java_string_hash,
)
from partage.keys.hashing.murmur2 import MURMUR2, murmur2

__all__ = [
    "CRC32",
    "FNV1A",
    "JAVA_BYTES",
    "JAVA_STRING",
    "MURMUR2",
    "Hash",
    "crc32",
    "fnv1a",
    "hash_all",
    "java_bytes_hash",
    "java_string_hash",
    "murmur2",
]
