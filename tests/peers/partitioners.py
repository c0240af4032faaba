"""Partitioners of kafka-python, aiokafka and librdkafka, by JSON lines; in the peers' environment.

In: ``{"who", "count", "keys": [hex or null]}``. Out: partitions. Further:

* ``who`` "defaults": the partitioner that each client has when nothing is configured;
* "kafka-python:sticky" takes ``available``, ``draws`` (what its random choice picks, modulo) and
  ``batches`` (positions before which a new batch begins);
* "delivered" produces to librdkafka's mock cluster with ``partitioner``, and tells where records went.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

_CALL = [
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
]


def library():
    import confluent_kafka

    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (found,) = beside.glob("librdkafka*")
    return ctypes.CDLL(str(found))


def by_librdkafka(name, keys, count):
    function = getattr(library(), f"rd_kafka_msg_partitioner_{name}")
    function.restype, function.argtypes = ctypes.c_int32, _CALL
    return [function(None, key, len(key or b""), count, None, None) for key in keys]


class Metadata:
    def __init__(self, count, available):
        self._count, self._available = count, available

    def topics(self):
        return {"t"}

    def partitions_for_topic(self, topic):
        return set(range(self._count))

    def available_partitions_for_topic(self, topic):
        return list(self._available)


def by_kafka_python(keys, count):
    from kafka.partitioner import DefaultPartitioner

    metadata = Metadata(count, range(count))
    one = DefaultPartitioner()
    return [one.partition("t", None, key, None, None, metadata) for key in keys]


def by_aiokafka(keys, count):
    from aiokafka.partitioner import DefaultPartitioner

    every = list(range(count))
    return [DefaultPartitioner()(key, every, every) for key in keys]


def sticky(request, keys):
    from kafka.partitioner import StickyPartitioner
    from kafka.partitioner import sticky as module

    draws = iter(request["draws"])
    module.random = SimpleNamespace(choice=lambda pool: pool[next(draws) % len(pool)])
    metadata = Metadata(request["count"], request["available"])
    one, out, last = StickyPartitioner(), [], None
    for i, key in enumerate(keys):
        if i in request["batches"]:
            one.on_new_batch("t", metadata, last)
        out.append(one.partition("t", None, key, None, None, metadata))
        last = out[-1]
    module.random = random
    return out


def defaults():
    import inspect

    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    lib = library()
    lib.rd_kafka_topic_conf_new.restype = ctypes.c_void_p
    lib.rd_kafka_topic_conf_get.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
    ]
    text, size = ctypes.create_string_buffer(100), ctypes.c_size_t(100)
    lib.rd_kafka_topic_conf_get(
        lib.rd_kafka_topic_conf_new(), b"partitioner", text, ctypes.byref(size)
    )
    theirs = KafkaProducer.DEFAULT_CONFIG["partitioner"]
    aio = inspect.signature(AIOKafkaProducer.__init__).parameters["partitioner"].default
    return {
        "kafka-python": f"{type(theirs).__module__}.{type(theirs).__name__}",
        "aiokafka": f"{type(aio).__module__}.{type(aio).__name__}",
        "librdkafka": text.value.decode(),
    }


def delivered(request, keys):
    from confluent_kafka import Producer

    configuration = {"bootstrap.servers": "unused", "test.mock.num.brokers": 1}
    if request["partitioner"]:
        configuration["partitioner"] = request["partitioner"]
    producer, out = Producer(configuration), [None] * len(keys)
    for i, key in enumerate(keys):

        def delivered(error, message, i=i):
            out[i] = message.partition() if error is None else str(error)

        producer.produce("t", key=key, value=b"v", on_delivery=delivered)
        producer.poll(0)
    producer.flush(30)
    return {"partitions": out, "count": len(producer.list_topics("t", 10).topics["t"].partitions)}


def answer(request):
    who = request["who"]
    if who == "defaults":
        return defaults()
    keys = [None if key is None else bytes.fromhex(key) for key in request["keys"]]
    if who == "delivered":
        return delivered(request, keys)
    if who == "kafka-python:sticky":
        return sticky(request, keys)
    if who == "kafka-python":
        return by_kafka_python(keys, request["count"])
    if who == "aiokafka":
        return by_aiokafka(keys, request["count"])
    return by_librdkafka(who.partition(":")[2], keys, request["count"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
