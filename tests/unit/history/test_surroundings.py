"""What stands beside a capture's records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.captured import DATA, SAMPLE

from partage.errors import InvalidCaptureError
from partage.jobs.replay.capture import Capture, LogContext, context_of, read_context
from partage.jobs.spark.tables import KafkaTable


def test_the_sample_tells_when_coordinators_moved() -> None:
    """Two log partitions had another leader for a while; the broker put members out after 6 s."""
    found = read_context(SAMPLE)
    assert found.session_timeout_ms == 6_000
    assert {p: [m.epoch for m in moves] for p, moves in found.moves.items()} == {
        1: [1, 2], 4: [1, 2],
    }  # fmt: skip
    assert read_context(SAMPLE / "consumer_offsets.parquet") == found


def test_the_brokers_session_timeout_is_read() -> None:
    """As the broker reports it, in cluster-config.json, with the initial delay of classic groups."""
    found = read_context(DATA)
    assert (found.session_timeout_ms, found.initial_delay_ms) == (6_000, 300)


def test_nothing_beside_is_nothing_known(tmp_path: Path) -> None:
    """A folder without these files, or with batches that have no epochs, is no error."""
    assert read_context(tmp_path) == LogContext()
    parquet.write_table(pa.table({"partition": [1]}), tmp_path / "batches.parquet")
    assert read_context(tmp_path) == LogContext()


@pytest.mark.parametrize("text", ["{", "[]", '{"configs": 3}', "{}"])
def test_settings_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    """A damaged file is named, with what to do."""
    (tmp_path / "cluster-config.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidCaptureError, match="or remove the file"):
        read_context(tmp_path)


def test_settings_without_the_timeout_are_fine(tmp_path: Path) -> None:
    """Older brokers have no such setting."""
    (tmp_path / "cluster-config.json").write_text(json.dumps({"configs": {}}), encoding="utf-8")
    assert read_context(tmp_path).session_timeout_ms is None


def test_damaged_batches_are_refused(tmp_path: Path) -> None:
    """Bytes that are no Parquet are an error of ours."""
    (tmp_path / "batches.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InvalidCaptureError, match="leader epochs"):
        read_context(tmp_path)


def test_a_running_cluster_has_the_settings_of_its_capture() -> None:
    """A replay of ``kafka://`` estimates stops by the broker's settings, as a capture does."""
    configs = json.loads((DATA / "cluster-config.json").read_bytes())["configs"]
    table = KafkaTable("kafka://h:1", "kafka", bootstrap="h:1", configs=configs)
    found = context_of(Capture("kafka://h:1", (), None, (), None, table))
    assert (found.session_timeout_ms, found.initial_delay_ms) == (6_000, 300)
    assert found == replace(read_context(DATA), moves={})
    assert context_of(Capture(DATA, (), None, (), None)) == read_context(DATA)
