"""Partitioners of one's own, the worked example, and serializers."""

from __future__ import annotations

import uuid
from importlib.metadata import EntryPoint

import pytest

import partage as pg
from partage.errors import InvalidConfigError, InvalidKeysError
from partage.keys import contract, registry, serializers, start
from partage.keys.contract import CustomPartitioner, RecordPartitioner, create_partitioner
from partage.keys.default_09 import DefaultPartitioner
from partage.keys.registry import find_partitioner
from partage.model import Cluster

KAFKAS = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"


class Recorded:
    """Goes round, and writes down what it was asked."""

    def __init__(self):
        self.calls, self.turn = [], 0

    def configure(self, configs):
        self.calls.append(("configure", configs["more"]))

    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):  # noqa: PLR0917 - Kafka's own signature
        self.calls.append(("partition", topic, key, key_bytes, value, value_bytes))
        self.turn += 1
        return (self.turn - 1) % len(cluster.partitions_of(topic))

    def on_new_batch(self, topic, cluster, previous):
        self.calls.append(("on_new_batch", topic, previous))

    def close(self):
        self.calls.append(("close",))


CLUSTER = Cluster.from_topics({"t": 4})


def test_a_partitioner_lives_as_kafka_lets_it() -> None:
    """Configure once, partition with all six arguments, close; explicit partitions pass it by."""
    with RecordPartitioner({"partitioner.class": Recorded, "more": 7}) as producer:
        one = producer.partitioner
        assert isinstance(one, CustomPartitioner)
        assert (
            producer.partition("t", CLUSTER, key="k", key_bytes=b"k", value=1, value_bytes=b"1")
            == 0
        )
        assert producer.partition("t", CLUSTER, explicit=3) == 3
        assert producer.partition("t", CLUSTER, needs_new_batch=True) == 1
    assert one.calls == [
        ("configure", 7),
        ("partition", "t", "k", b"k", 1, b"1"),
        ("partition", "t", None, None, None, None),
        ("close",),
    ]


def test_producers_before_4_ask_again_at_a_new_batch() -> None:
    """2.4 to 3.9: onNewBatch with the first answer, then a second call that counts."""
    producer = RecordPartitioner({"partitioner.class": Recorded, "more": 0}, asks_again=True)
    assert producer.partition("t", CLUSTER, needs_new_batch=True) == 1
    assert [call[0] for call in producer.partitioner.calls] == [
        "configure", "partition", "on_new_batch", "partition",
    ]  # fmt: skip
    assert producer.partitioner.calls[2] == ("on_new_batch", "t", 0)


def test_the_worked_example_is_the_partitioner_of_0_9() -> None:
    """Written against the contract, it gives what `java:0.9` gives, with one counter for all topics."""
    cluster = Cluster.from_topics({"t": 5, "u": 3})
    keys = [b"a", None, None, b"", None, b"foobar", None]
    state = start("java:0.9", counter=-3)
    with RecordPartitioner({"partitioner.class": "java:0.9", "partage.counter": -3}) as producer:
        assert isinstance(producer.partitioner, DefaultPartitioner)
        for topic, n in [("t", 5), ("u", 3), ("t", 5)]:
            theirs = [producer.partition(topic, cluster, key_bytes=key) for key in keys]
            ours, state = pg.partition_for(keys, partitions=n, partitioner="java:0.9", state=state)
            assert ours.tolist() == theirs


def test_a_class_name_means_one_class_everywhere() -> None:
    """Kafka's DefaultPartitioner is that of 2.4 to 3.9 through both doors; 0.9's has its own name."""
    assert find_partitioner(KAFKAS).name == "java:3.9"
    cluster = Cluster.from_topics({"t": 5})
    with RecordPartitioner({"partitioner.class": KAFKAS, "partage.seed": 4}) as producer:
        assert producer.partitioner.partitioner.name == "java:3.9"
        first = [producer.partition("t", cluster) for _ in range(4)]
        assert len(set(first)) == 1, "one partition a batch, not by turns"
        producer.partitioner.on_new_batch("t", cluster, first[0])
        assert producer.partition("t", cluster) != first[0]
        assert producer.partition("t", cluster, key_bytes=b"foobar") == int(
            pg.partition_for(b"foobar", partitions=5, partitioner=KAFKAS)[0]
        )
    with RecordPartitioner({"partitioner.class": "java:0.9"}) as producer:
        assert len({producer.partition("t", cluster) for _ in range(5)}) == 5


class ByLength:
    """Keys by their length, records without a key to the last partition."""

    offset = 0

    def configure(self, configs):
        self.offset = configs.get("offset", 0)

    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):  # noqa: PLR0917 - Kafka's own signature
        count = len(cluster.partitions_of(topic))
        return count - 1 if key_bytes is None else (len(key_bytes) + self.offset) % count

    def close(self): ...


def test_a_custom_class_places_the_keys_of_partition_for(monkeypatch) -> None:
    """By class, object, module:Class and entry point; null keys and explicit partitions included."""
    keys = [b"", "a", None, b"bbb"]
    assert pg.partition_for(keys, partitions=3, partitioner=ByLength).tolist() == [0, 1, 2, 0]
    found = pg.partition_for(
        keys,
        partitions=3,
        partitioner=ByLength(),
        configs={"offset": 1},
        explicit=[2, None, None, 1],
    )
    assert found.tolist() == [2, 2, 2, 1]
    arrow = pytest.importorskip("pyarrow").array([b"a", None, b"a"]).dictionary_encode()
    assert pg.partition_for(arrow, partitions=3, partitioner=ByLength).to_pylist() == [1, 2, 1]
    example = "partage.keys.default_09:DefaultPartitioner"
    keyed = pg.partition_for([b"foobar"], partitions=10, partitioner=example)
    assert keyed.tolist() == [6]
    points = {"mine": EntryPoint("mine", example, contract.ENTRY_POINTS),
              "gone": EntryPoint("gone", "no_such_package:One", contract.ENTRY_POINTS)}  # fmt: skip
    for module in (contract, registry):
        monkeypatch.setattr(module, "plugged_in", lambda: points)
    assert pg.partition_for([b"foobar"], partitions=10, partitioner="mine").tolist() == [6]
    assert pg.partitioners()[-2:] == ("gone", "mine")
    rows = {row.name: row for row in pg.keys.describe_partitioners()}
    assert rows["mine"].summary.startswith("Default partitioner of Kafka's Java producer 0.9")
    assert "cannot be loaded" in rows["gone"].summary
    with pytest.raises(InvalidConfigError, match="must answer a partition"):
        pg.partition_for(b"a", partitions=1, partitioner=type("Odd", (ByLength,), {
            "partition": lambda *_: 7}))  # fmt: skip
    with pytest.raises(InvalidConfigError, match="must be a name"):
        pg.partition_for(b"a", partitions=1, partitioner=7)


def test_plug_ins_are_found_by_entry_point(monkeypatch) -> None:
    """A package's entry point in `partage.partitioners` names a class; an error names a broken one."""
    points = {
        "mine": EntryPoint(
            "mine", "partage.keys.default_09:DefaultPartitioner", contract.ENTRY_POINTS
        ),
        "gone": EntryPoint("gone", "no_such_package:One", contract.ENTRY_POINTS),
    }
    monkeypatch.setattr(contract, "plugged_in", lambda: points)
    assert isinstance(create_partitioner({"partitioner.class": "mine"}), DefaultPartitioner)
    with pytest.raises(
        InvalidConfigError, match=r"partage\.partitioners\.gone: the plug-in cannot be loaded"
    ):
        create_partitioner({"partitioner.class": "gone"})


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (None, "names no partitioner"),
        ("no.such.Class", "neither module:Class nor a name"),
        ("no_such_module:One", "cannot be loaded"),
        ("partage.keys.contract:nobody", "cannot be loaded"),
        ("partage.model:Cluster", "cannot be made"),
        (object(), "lacks configure, partition, close"),
    ],
)
def test_what_is_no_partitioner(named, says) -> None:
    """Missing, not loadable, not made, without the methods: each has its own words."""
    with pytest.raises(InvalidConfigError, match=says):
        create_partitioner({"partitioner.class": named})


@pytest.mark.parametrize(
    ("answer", "says"), [(-1, "generated an invalid partition number: -1"), ("0", "answer an int")]
)
def test_answers_that_no_partitioner_may_give(answer, says, monkeypatch) -> None:
    """A negative answer is refused as Kafka does; what is no int too."""
    monkeypatch.setattr(Recorded, "partition", lambda *_: answer)
    producer = RecordPartitioner({"partitioner.class": Recorded, "more": 0})
    with pytest.raises(InvalidConfigError, match=says):
        producer.partition("t", CLUSTER)
    with pytest.raises(InvalidConfigError, match=r"4 is not in the range \[0\.\.\.4\]"):
        producer.partition("t", CLUSTER, explicit=4)


def test_one_key_in_many_forms_is_in_many_partitions() -> None:
    """42 as text, numbers, Avro under two schema ids and JSON in two spacings: all bytes differ."""
    forms = serializers.serialize_by_all(42)
    assert len(set(forms.values())) == len(forms) >= 9
    at = dict(
        zip(forms, pg.partition_for(list(forms.values()), partitions=1000).tolist(), strict=True)
    )
    assert at["Avro long, schema 1"] != at["Avro long, schema 2"]
    assert len(set(at.values())) > 7
    assert set(serializers.serialize_by_all("x")) & {"LongSerializer"} == set()
    assert "IntegerSerializer" not in serializers.serialize_by_all(2**31)
    assert "IntegerSerializer" in serializers.serialize_by_all(-(2**31))


@pytest.mark.parametrize(
    "make",
    [
        lambda: serializers.int_(2**31),
        lambda: serializers.short(-(2**15) - 1),
        lambda: serializers.long_(2**63),
        lambda: serializers.avro_long(2**63),
        lambda: serializers.uuid_text("no"),
        lambda: serializers.registry_framed(b"", -1),
        lambda: serializers.json_key(object()),
    ],
)
def test_keys_that_do_not_fit_a_serializer(make) -> None:
    """A number too large, a UUID that is none, a schema id below 0: refused."""
    with pytest.raises(InvalidKeysError):
        make()


def test_avros_numbers_as_in_its_specification() -> None:
    """Zigzag: the examples of Avro's own specification, and the ends of 64 bits."""
    examples = {0: "00", -1: "01", 1: "02", -2: "03", 2: "04", -64: "7f", 64: "8001"}
    assert {n: serializers.avro_long(n).hex() for n in examples} == examples
    assert serializers.avro_long(2**63 - 1).hex() == "feffffffffffffffff01"
    assert serializers.avro_string("foo").hex() == "06666f6f"
    assert serializers.uuid_text(uuid.UUID(int=1)) == b"00000000-0000-0000-0000-000000000001"
