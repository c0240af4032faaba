"""The check before a capture: permissions, gaps in the log, and what it prints."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from struct import pack
from types import SimpleNamespace

import pytest
from tests.support.notebooks import parsed
from typer.testing import CliRunner

import partage as pg
from partage.capture.connection import FetchedPartition
from partage.capture.preflight import AccessReport, PartitionExtent, check_access
from partage.cli.app import app
from partage.wire.group_log import encode_record

NOT_AUTHORIZED, NOT_LEADER, GROUP_NOT_AUTHORIZED = 29, 6, 30
NOW_MS, HOUR_MS = 1_800_000_000_000, 3_600_000
EVERYTHING = {"log", "configs", "log configs", "cluster", "topics", "groups"}


def varint(number: int) -> bytes:
    number, found = number * 2, b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def batch(base: int, span: int, left: list[int], ms: int) -> bytes:
    """A record batch of ``span`` offsets of which these are left; each commits for group g."""
    key, _ = encode_record(1, {"group": "g", "topic": "orders", "partition": 0})
    records = b""
    for offset in left:
        body = b"\0" + varint(0) + varint(offset - base) + varint(len(key)) + key + varint(0) * 2
        records += varint(len(body)) + body
    header = (0, 2, 0, 0, span - 1, ms, ms, -1, -1, -1, len(left))
    return pack(">qi", base, 49 + len(records)) + pack(">ibIhiqqqhii", *header) + records


def log_of(count: int, removed: set[int] = frozenset(), span: int = 10) -> list[tuple[int, bytes]]:
    """(last offset, batch) pairs of a log, a second a record, without the removed offsets."""
    found = []
    for base in range(0, count, span):
        left = [o for o in range(base, base + span) if o not in removed]
        if left:
            made = batch(base, span, left, NOW_MS - (count - base) * 1_000)
            found.append((base + span - 1, made))
    return found


class Cluster:
    """A connection that answers from logs in memory, to an account with some permissions."""

    def __init__(
        self, *logs: list[tuple[int, bytes]], may: set[str] = frozenset(EVERYTHING)
    ) -> None:
        self.logs, self.may = logs, may
        self.ends = [log[-1][0] + 1 if log else 0 for log in logs]
        self.fetches = 0
        self.errors: dict[int, int] = {}
        self.has_log = True

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def fetch_metadata(self, names=None):
        parts = [SimpleNamespace(partition_index=p, leader_id=1) for p in range(len(self.logs))]
        there = {
            "__consumer_offsets": "log" in self.may and self.has_log,
            "orders": "topics" in self.may,
        }
        topics = []
        for name in there if names is None else names:
            error = 0 if there.get(name) else NOT_AUTHORIZED
            if name == "__consumer_offsets" and not self.has_log:
                error = 3
            if names is not None or not error:
                topics.append(SimpleNamespace(name=name, error_code=error, partitions=parts))
        return SimpleNamespace(cluster_id="c", brokers=[SimpleNamespace(node_id=1)], topics=topics)

    def partition_bounds(self, _topic, partitions):
        return dict.fromkeys(partitions, 0), {p: self.ends[p] for p in partitions}

    def fetch_records(self, node, _topic, *, partition_bytes, **_how):
        self.fetches += 1
        found = []
        for one in (one for wanted in node.values() for one in wanted):
            error = self.errors.get(one.partition, 0)
            # A broker sends a batch that is larger than the limit only as the first of a response.
            data = b"" if error else self._read(one, partition_bytes, first=not found)
            found.append(FetchedPartition(one.partition, error, self.ends[one.partition], 0, data))
        return found, {}

    def _read(self, one, limit: int, *, first: bool) -> bytes:
        log = self.logs[one.partition]
        data = b""
        for _, made in log[bisect_left(log, (one.offset, b"")) :]:
            if len(data) + len(made) > limit and (data or not first):
                break
            data += made
        return data

    def topic_config(self, _topic, _names):
        settings = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}
        return settings if "log configs" in self.may else {}

    def broker_config(self, _node):
        return {"group.consumer.session.timeout.ms": "1"} if "configs" in self.may else {}

    def may_describe_cluster(self):
        return "cluster" in self.may

    def ask_each(self, requests):
        may = "groups" in self.may or "cluster" in self.may
        there = [
            SimpleNamespace(group_id="g", protocol_type="consumer", group_type="classic")
        ] * may
        return {node: SimpleNamespace(error_code=0, groups=there) for node in requests}

    def request_response(self, request, _node=None):
        error = 0 if "groups" in self.may else GROUP_NOT_AUTHORIZED
        groups = [SimpleNamespace(group_id=one, error_code=error) for one in request.groups]
        return SimpleNamespace(groups=groups)


def check(cluster: Cluster) -> AccessReport:
    return check_access(cluster, now_ms=NOW_MS)


def test_a_log_without_gaps_is_complete_from_its_first_record() -> None:
    """Nothing was removed: the whole past is there, since the time of the first record."""
    found = check(Cluster(log_of(4_000), [], log_of(10)))
    assert [one.complete_from for one in found.partitions] == [0, 0, 0]
    assert [one.end for one in found.partitions] == [4_000, 0, 10]
    assert found.partitions[1].first_offset is None
    assert (found.complete_share, found.complete_since_ms) == (1.0, NOW_MS - 4_000_000)
    assert found.follow_seconds == 86_400 - 4_000
    assert found.can_capture
    assert not found.missing_permissions


@pytest.mark.parametrize("seed", range(2))
def test_the_search_finds_the_end_of_the_last_gap(seed: int) -> None:
    """Of a compacted log with few records left, the complete part begins after the last gap; a search
    of three partitions reads little.
    """
    chance = random.Random(seed)
    logs, exact = [], []
    for end in (9_000, 3_340, 12_000):
        cleaned = chance.randrange(end // 2, end - 10)
        removed = {o for o in range(cleaned) if chance.random() < 0.97}
        logs.append(log_of(end, removed))
        exact.append(max(removed) // 10 * 10 + 10)  # of batches, not of single records
    cluster = Cluster(*logs)
    found = check(cluster)
    assert [one.complete_from for one in found.partitions] == exact
    firsts = [one.first_offset for one in found.partitions]
    assert firsts == [log[0][0] - 9 for log in logs]
    times = [
        NOW_MS - (one.end - at // 10 * 10) * 1_000
        for one, at in zip(found.partitions, exact, strict=True)
    ]
    assert [one.complete_ms for one in found.partitions] == times
    assert found.complete_since_ms == max(times)
    assert cluster.fetches < 25


def test_a_log_of_which_only_old_records_are_left_has_nothing_complete() -> None:
    """The newest records are gone, too: the log must be followed for the whole day."""
    log = [one for one in log_of(3_000) if one[0] < 500 or one[0] == 2_999]
    log[-1] = (2_999, batch(2_990, 10, [2_990], NOW_MS))
    found = check(Cluster(log))
    assert (found.partitions[0].complete_from, found.partitions[0].complete_ms) == (3_000, None)
    assert (found.complete_share, found.follow_seconds) == (0.0, 86_400)


def test_a_large_batch_is_asked_for_alone() -> None:
    """A broker leaves out a batch that is larger than the limit: that is no gap."""
    large = log_of(5_000, span=1_000)
    found = check(Cluster(log_of(5_000), large, large))
    assert [one.complete_from for one in found.partitions] == [0, 0, 0]
    assert not found.warnings


def test_a_partition_that_cannot_be_read_is_a_warning() -> None:
    """The others are checked all the same."""
    cluster = Cluster(log_of(100), log_of(100))
    cluster.errors[1] = NOT_LEADER
    found = check(cluster)
    assert [one.partition for one in found.partitions] == [0]
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("partition 1: ")


@pytest.mark.parametrize(
    ("lacks", "missing", "can_capture"),
    [
        (set(), [], True),
        ({"log"}, ["DESCRIBE topic __consumer_offsets", "READ topic __consumer_offsets"], False),
        ({"topics"}, ["DESCRIBE topics"], True),
        ({"groups"}, ["DESCRIBE groups"], True),
        ({"cluster"}, ["DESCRIBE cluster"], True),
        ({"groups", "cluster"}, ["DESCRIBE groups", "DESCRIBE cluster"], True),
        ({"configs"}, ["DESCRIBE_CONFIGS cluster"], True),
        ({"log configs"}, ["DESCRIBE_CONFIGS topic __consumer_offsets"], True),
    ],
)
def test_each_missing_permission_is_named(lacks, missing, can_capture) -> None:
    """Only the permissions on the log are required; topics and groups are known from its records."""
    found = check(Cluster(log_of(100), may=EVERYTHING - lacks))
    assert [f"{one.operation} {one.resource}" for one in found.missing_permissions] == missing
    assert found.can_capture is can_capture
    names = {"topics": "orders", "groups": "g"}
    for one in found.missing_permissions:
        assert names.get(one.resource, "") in one.detail


def test_an_account_that_may_only_describe_the_log_may_not_capture() -> None:
    """The brokers give offsets, and refuse the records."""
    cluster = Cluster(log_of(100), log_of(100))
    cluster.errors = {0: NOT_AUTHORIZED, 1: NOT_AUTHORIZED}
    found = check(cluster)
    assert [one.operation for one in found.missing_permissions] == ["READ"]
    assert not found.can_capture
    assert found.partitions == found.warnings == ()


def test_a_cluster_without_groups_has_no_log_yet() -> None:
    """Whether the account may READ it is then unknown, and no permission is called missing."""
    cluster = Cluster()
    cluster.has_log = False
    found = check(cluster)
    assert [one.allowed for one in found.permissions[:2]] == [True, None]
    assert "does not exist" in found.permissions[1].detail
    assert found.can_capture
    assert (found.complete_share, found.follow_seconds) == (None, 86_400)
    assert next(found.report_messages()).startswith("The log has no record")


def test_a_log_that_keeps_a_day_need_not_be_followed() -> None:
    """With a record of 30 hours and a compaction lag of two days one capture has everything."""
    hours_30 = NOW_MS - 30 * HOUR_MS
    extent = PartitionExtent(0, 5, hours_30 - 1, 1_000, hours_30, 4_000)
    settings = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(48 * HOUR_MS)}
    found = AccessReport("c", 1, 1, 1, (), (extent,), settings, (), NOW_MS)
    assert (found.follow_seconds, found.safe_seconds, found.complete_share) == (0, 172_800, 0.75)
    said = " ".join(found.report_messages())
    assert "75.0% of all records" in said
    assert "leaves records for 2.0 days" in said
    assert "a capture without --follow has it at once" in said


def asked(monkeypatch, cluster: Cluster, *more: str):
    monkeypatch.setattr("partage.capture.connection.ClusterConnection", lambda *_: cluster)
    return CliRunner().invoke(app, ["capture", "-b", "h:1", "--check", *more])


def test_the_command_prints_permissions_and_how_to_grant_them(monkeypatch) -> None:
    """Exit code 0 where only optional permissions are missing, with the ACLs to add."""
    done = asked(
        monkeypatch, Cluster(log_of(100, removed=set(range(40))), may=EVERYTHING - {"configs"})
    )
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "missing DESCRIBE_CONFIGS on cluster" in text
    assert "--operation DescribeConfigs --cluster" in text
    assert "The log has 60.0% of all records ever written without a gap" in text
    assert "partage capture -b h:1 --out capture --follow" in text


def test_the_command_fails_where_a_capture_would(monkeypatch) -> None:
    """Exit code 3, as text and as JSON."""
    cluster = Cluster(log_of(100), may=set())
    done = asked(monkeypatch, cluster)
    assert done.exit_code == 3
    assert "A capture is not possible" in done.stdout
    assert "--operation Read --topic __consumer_offsets" in done.stdout
    done = asked(monkeypatch, cluster, "--json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert found["can_capture"] is False
    assert len(found["permissions"]) == 7


def test_the_function_gives_what_the_command_prints(monkeypatch) -> None:
    """`pg.check_access` and `--json` agree; only the time of the check differs."""
    cluster = Cluster(log_of(100, removed=set(range(40))))
    printed = json.loads(asked(monkeypatch, cluster, "--json").stdout)
    found = pg.check_access("h:1").to_dict()
    for name in set(found) - {"now_ms", "follow_seconds"}:
        assert found[name] == printed[name]


@pytest.mark.parametrize(
    "more", [["--out", "x"], ["--follow"], ["--log-dir", "x"], ["--events", "-"]]
)
def test_a_check_records_nothing(monkeypatch, more, tmp_path) -> None:
    """Options of a recording beside --check are wrong usage, and so is neither."""
    monkeypatch.chdir(tmp_path)
    done = asked(monkeypatch, Cluster(), *more)
    assert done.exit_code == 2
    assert "give either --check or" in " ".join(done.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())
    done = CliRunner().invoke(app, ["capture", "-b", "h:1"])
    assert done.exit_code == 2
    assert "give a folder, or --check" in " ".join(done.stderr.replace("│", " ").split())


def test_a_notebook_shows_permissions_and_what_to_do() -> None:
    """The same rows and sentences as text and as HTML."""
    found = check(Cluster(log_of(100), may=EVERYTHING - {"cluster"}))
    html = "".join(parsed(found._repr_html_()).text)
    for said in ("DESCRIBE on cluster", "missing", "100.0% of all records", "to have a whole day"):
        assert said in str(found)
        assert said in html
    refused = check(Cluster(log_of(100), may=set()))
    assert str(refused).endswith("required permissions are missing.")
