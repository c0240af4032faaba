"""`make drift`: differences of layouts and class files between two releases."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from pathlib import Path

import pytest
from tests.support.kafka_definitions import definitions_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def drift():
    spec = importlib.util.spec_from_file_location("drift", ROOT / "tools" / "drift.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def jar(path: Path, definitions: list[dict], classes: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for one in definitions:
            text = "// a comment\n" + json.dumps(one)
            packed.writestr(f"common/message/{one['name']}.json", text)
        for name, content in classes.items():
            packed.writestr(f"org/apache/kafka/{name}.class", content)
    return path


def message(name: str, *fields: dict, versions: str = "0") -> dict:
    return {"name": name, "type": "coordinator-value", "validVersions": versions,
            "about": "text", "fields": list(fields)}  # fmt: skip


def test_layouts_differ_field_by_field(drift, tmp_path) -> None:
    """New and removed messages, versions, fields and nested fields; texts do not count."""
    inner = {"name": "P", "type": "[]Q", "versions": "0+",
             "fields": [{"name": "q", "type": "int32", "versions": "0+"}]}  # fmt: skip
    wider = inner | {"fields": [{"name": "q", "type": "int64", "versions": "0+"}]}
    old = jar(
        tmp_path / "a.jar", [message("Same", inner), message("Gone"), message("M", inner)], {}
    )
    new = jar(
        tmp_path / "b.jar",
        [message("Same", inner) | {"about": "other"}, message("New"),
         message("M", wider, versions="0-1")],
        {},
    )  # fmt: skip
    found = list(drift.layout_changes(definitions_of([old]), definitions_of([new])))
    assert found == [
        "Gone: removed", "M: validVersions 0 -> 0-1; changed P.q", "New: new (coordinator-value)",
    ]  # fmt: skip


def test_class_files_of_imitated_algorithms_are_compared(drift, tmp_path) -> None:
    """Only classes that Partage imitates count, by their bytes."""
    assignor = "coordinator/group/assignor/UniformAssignor"
    old = jar(tmp_path / "c.jar", [], {assignor: b"1", "common/Cluster": b"1"})
    new = jar(
        tmp_path / "d.jar", [],
        {assignor: b"2", "common/Cluster": b"2", "clients/consumer/RangeAssignor": b"1"},
    )  # fmt: skip
    assert list(drift.class_changes([old], [new])) == [
        "org.apache.kafka.clients.consumer.RangeAssignor: new",
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor: changed",
    ]
    assert not list(drift.class_changes([new], [new]))
