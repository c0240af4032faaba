"""The recorded Streams applications, decoded, against the texts that Kafka's own classes print."""

from __future__ import annotations

import lzma
import re

import pytest
from tests.support.wire_samples import CAPTURE, recorded

from partage.wire.group_log import decode_record
from partage.wire.record_json import to_json

CLASSIC, SERVER = "views-join", 17


@pytest.fixture(scope="module")
def members():
    """Pairs (our fields, Kafka's texts) of each member of the recorded classic application."""
    import json

    wanted = {}
    with lzma.open(CAPTURE / "decoded.jsonl.xz", "rt", encoding="utf-8") as lines:
        for text in lines:
            if "streamsSubscription" in text:
                line = json.loads(text)
                wanted[line["partition"], line["offset"]] = line["members_decoded"]
    pairs = []
    for partition, offset, timestamp_ms, key, value in recorded():
        if (partition, offset) in wanted:
            line = to_json(
                decode_record(key, value),
                partition=partition,
                offset=offset,
                timestamp_ms=timestamp_ms,
            )
            pairs += zip(line["members_decoded"], wanted[partition, offset], strict=True)
    return pairs


def _said(info):
    """Our fields in the words of ``SubscriptionInfoData.toString``."""
    sums = []
    for one in info["taskOffsetSums"]:
        subtopology, partition = one["task"].split("_")
        sums.append(
            f"TaskOffsetSum(topicGroupId={subtopology}, partition={partition}, "
            f"offsetSum={one['offsetSum']}, namedTopology=null, partitionToOffsetSum=[])"
        )
    endpoint = list((info["userEndPoint"] or "").encode())
    return (
        f"SubscriptionInfoData(version={info['version']}, "
        f"latestSupportedVersion={info['latestSupportedVersion']}, "
        f"processId={info['processId']}, prevTasks=[], standbyTasks=[], "
        f"userEndPoint={endpoint}, taskOffsetSums=[{', '.join(sums)}], "
        f"uniqueField={info['uniqueField']}, errorCode={info['errorCode']}, clientTags=[])"
    )


def test_subscriptions_read_as_kafka_prints_them(members):
    """48 members, text for text."""
    assert len(members) == 48
    for ours, theirs in members:
        assert _said(ours["streamsSubscription"]) == theirs["streamsSubscription"]


def _listed(text):
    return [one for one in text.split(", ") if one]


def _expected(text):
    """Kafka's text in pieces; maps and sets come in the order of its hash maps."""
    found = re.fullmatch(
        r"\[version=(\d+), supported version=(\d+), active tasks=\[(.*?)\], "
        r"standby tasks=\{(.*?)\}, partitions by host=\{(.*?)\}, "
        r"standbyPartitions by host=\{(.*?)\}\]",
        # A host's own braces would end the map.
        re.sub(r"HostInfo\{host='(.*?)', port=(\d+)\}", r"\1:\2", text),
    )
    assert found
    maps = [
        {name: sorted(_listed(own)) for name, own in re.findall(r"([^ ,]+)=\[(.*?)\]", one)}
        for one in found.groups()[3:]
    ]
    return [int(found[1]), int(found[2]), _listed(found[3]), *maps]


def _ours(info):
    def names(partitions):
        return sorted(f"{topic}-{number}" for topic, number in partitions)

    return [
        info["version"],
        info["commonlySupportedVersion"],
        info["activeTasks"],
        {one["task"]: names(one["partitions"]) for one in info["standbyTasks"]},
        *(
            {f"{one['host']}:{one['port']}": names(one["partitions"]) for one in info[field]}
            for field in ("partitionsByHost", "standbyPartitionsByHost")
        ),
    ]


def test_assignments_read_as_kafka_prints_them(members):
    """Versions, active and standby tasks, partitions by host of every member that has one."""
    compared = 0
    for ours, theirs in members:
        if "streamsAssignment" in theirs:
            assert _ours(ours["streamsAssignment"]) == _expected(theirs["streamsAssignment"])
            assert ours["streamsAssignment"]["errCode"] == 0
            compared += 1
    assert compared >= 40


def test_nothing_of_streams_is_undecodable():
    """No record of either application has an error anywhere, and all their types are there."""
    kinds = set()
    for partition, offset, timestamp_ms, key, value in recorded():
        record = decode_record(key, value)
        streams = record.type.startswith("STREAMS_")
        if not streams and record.key.get("group") != CLASSIC:
            continue
        line = to_json(record, partition=partition, offset=offset, timestamp_ms=timestamp_ms)
        assert '"error"' not in repr(line).replace("'", '"')
        kinds.add(record.key_version)
    assert kinds == {1, 2, 17, 19, 20, 21, 22, 23}


def test_damaged_user_data_says_why_and_keeps_the_rest():
    """The member's other fields stand; the error has its place."""
    for _, _, _, key, value in recorded():
        if value is not None and b"stream" in value and key[:2] == b"\0\2":
            record = decode_record(key, value)
            if record.value["protocol"] == "stream":
                break
    member = record.value["members"][0]
    member["subscription"] = bytes.fromhex("0003 00000000 00000004 0000000b 00000000 ffffffff ffff")
    shown = to_json(record, partition=0, offset=0, timestamp_ms=0)["members_decoded"][0]
    assert shown["subscription"]["data"]["userData"] == "AAAACw=="
    assert shown["streamsSubscription"] == {
        "error": "SubscriptionInfoData.latestSupportedVersion (version 11) at byte 4: "
        "4 bytes needed, 0 left"
    }
    assert shown["streamsAssignment"]["version"] == 11
