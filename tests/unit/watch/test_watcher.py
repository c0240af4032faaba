"""The watcher's thread: events of what a capture reads, and errors of their output."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.live_batches import follow, log_batches
from tests.support.recordings import json_lines, recording
from tests.support.wire_samples import ROOT
from typer.testing import CliRunner

from partage.capture.log_dir import batches_in
from partage.capture.unpacking import crc32c_function
from partage.capture.writing import CaptureWriter
from partage.cli.app import app
from partage.errors import InvalidConfigError
from partage.history.live_groups import RebalanceOpened
from partage.watch.watcher import EventSink, Watcher

SEGMENT = ROOT / "tests" / "data" / "segments" / "compressed.log"
#: Batches of the recording that are enough for some rebalances.
SOME = 400


def run(
    tmp_path: Path, sink: EventSink | None, first: int = 0, last: int = SOME, **more
) -> threading.Event:
    """Feed the beginning of a recording through a watcher, as a capture does."""
    stop = threading.Event()
    with (
        Watcher(sink, stop, **more) as watcher,
        CaptureWriter(tmp_path / "out", observer=watcher) as writer,
    ):
        watcher.start_watching(writer)
        for state in json_lines(recording("seed-11").capture, "cluster.jsonl"):
            watcher.on_state(state)
        for number, batch in enumerate(log_batches(recording("seed-11"))[first:last]):
            watcher.on_batch(batch)
            if number % 50 == 49:
                watcher.send_queued_records()
    return stop


def test_events_are_written_as_json_lines(tmp_path) -> None:
    """The file has the rebalances of the records in order, and each one settles."""
    target = tmp_path / "events.jsonl"
    target.write_text('{"event": "earlier"}\n{"event": "torn', "utf-8")
    run(tmp_path, EventSink(str(target)))
    first, *events = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert first == {"event": "earlier"}  # a torn line is removed
    wanted = [
        one.group
        for one in follow(recording("seed-11"), log_batches(recording("seed-11"))[:SOME])[1]
        if isinstance(one, RebalanceOpened)
    ]
    opened = [one for one in events if one["event"] == "opened"]
    assert len(wanted) > 2
    assert sorted(one["group"] for one in opened) == sorted(wanted)
    settled = [one for one in events if one["event"] == "settled"]
    key = "log_partition", "log_offset"
    assert {tuple(one[k] for k in key) for one in settled} == {
        tuple(one[k] for k in key) for one in opened
    }


def test_a_capture_that_is_continued_goes_on_from_the_stored_state(tmp_path) -> None:
    """In two runs the same rebalances are reported as in one, with the same causes."""
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    run(tmp_path / "a", EventSink(str(whole)))
    run(tmp_path / "b", EventSink(str(parts)), last=SOME // 2)
    run(tmp_path / "b", EventSink(str(parts)), first=SOME // 2)

    def opened(path: Path) -> list[tuple]:
        events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return sorted(
            (one["group"], one["generation"], one["log_offset"], json.dumps(one["causes"]))
            for one in events
            if one["event"] == "opened"
        )

    assert opened(parts) == opened(whole)


def test_the_first_end_of_the_log_tells_what_an_earlier_process_announced(tmp_path) -> None:
    """It is stored with the capture: a process that continues it reports how those rebalances end."""
    found = list(batches_in(SEGMENT, crc32c=crc32c_function(), report=pytest.fail))
    with CaptureWriter(tmp_path / "out") as writer:
        for partition, batch in enumerate(found):
            writer.set_first_end(partition, 100 * partition)
            writer.add_batch(partition, batch)
    with CaptureWriter(tmp_path / "out") as writer:
        live = Watcher(None, threading.Event())._rebuild_histories(writer)
    assert live.announced_from == {p: 100 * p for p in range(len(found))}


def test_a_damaged_state_is_rebuilt(tmp_path) -> None:
    """A stored state that cannot be read costs a message, and time."""
    run(tmp_path, None)
    (tmp_path / "out" / "watch.state").write_bytes(b"PGH")
    troubles: list[str] = []
    run(tmp_path, None, trouble=troubles.append)
    assert len(troubles) == 1
    assert "watch.state: stored state" in troubles[0]


def test_what_precedes_the_first_end_of_the_log_is_no_event(tmp_path) -> None:
    """Rebalances of the time before the capture began are not reported."""
    target = tmp_path / "events.jsonl"
    stop = threading.Event()
    with (
        Watcher(EventSink(str(target)), stop) as watcher,
        CaptureWriter(tmp_path / "out", observer=watcher) as writer,
    ):
        watcher.start_watching(writer)
        for batch in log_batches(recording("seed-11"))[:SOME]:
            watcher.on_fetch(batch.partition, 1 << 40)
            watcher.on_batch(batch)
        watcher.send_queued_records()
    assert target.read_text("utf-8") == ""


def test_settings_of_the_broker_reach_the_histories() -> None:
    """Unread times need the session timeout and the initial delay; other values mean unknown."""
    watcher = Watcher(None, threading.Event())
    names = ("group.consumer.session.timeout.ms", "group.initial.rebalance.delay.ms")
    for values in ((6_000, 300), (None, None)):
        watcher.on_config(dict(zip(names, map(str, values), strict=True)))
        live = watcher._live
        assert (live.session_timeout_ms, live.initial_delay_ms) == values


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_capture(tmp_path) -> None:
    """The capture is stopped, and the error names the option and the file."""
    with pytest.raises(InvalidConfigError, match=r"--events: cannot be written \(No space left"):
        run(tmp_path, EventSink("/dev/full"))


def test_a_closed_pipe_ends_the_capture(tmp_path, monkeypatch) -> None:
    """The reader has gone: the capture ends, with a warning."""
    read, write = os.pipe()
    os.close(read)
    troubles: list[str] = []
    with os.fdopen(write, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=pipe, flush=pipe.flush))
        sink = EventSink("-")
        monkeypatch.undo()
        with pytest.raises(BrokenPipeError):
            run(tmp_path, sink, trouble=troubles.append)
    assert troubles == ["the reader of the events has closed the pipe: the capture ends"]


def test_a_capture_that_is_continued_rebuilds_what_it_read(tmp_path) -> None:
    """The batches of the files are those that were observed when they were read."""
    seen: list = []
    observer = SimpleNamespace(
        on_batch=seen.append,
        on_state=lambda _: None,
        on_fetch=lambda *_: None,
        on_config=lambda _: None,
    )
    found = list(batches_in(SEGMENT, crc32c=crc32c_function(), report=pytest.fail))
    with CaptureWriter(tmp_path / "out", observer=observer, part_rows=15) as writer:
        writer.write_config({"group.consumer.session.timeout.ms": "6000"})
        for partition, batch in enumerate(found):
            writer.add_batch(partition, batch)
    with CaptureWriter(tmp_path / "out") as writer:
        configs, states, batches = writer.recorded_content({})
        assert list(batches) == seen
    assert len(seen) == len(found)
    assert configs == {"group.consumer.session.timeout.ms": "6000"}
    assert states == []


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--events", "-"], 1, "--events: needs --follow"),
        (["--metrics", "127.0.0.1:0"], 1, "--metrics: needs --follow"),
        (["--follow", "--events", "-", "--json"], 2, "both"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_a_broker_is_asked(
    tmp_path, options, code, said
) -> None:
    """The message names the option."""
    command = ["capture", "--bootstrap-server", "localhost:1", "--out", str(tmp_path), *options]
    done = CliRunner().invoke(app, command, terminal_width=200)
    assert done.exit_code == code
    assert said in done.stderr
