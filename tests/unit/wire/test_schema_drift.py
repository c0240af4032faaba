"""Partage's layout documents against the message definitions in Kafka's own jars."""

from __future__ import annotations

import json
import re
import zipfile

import pytest
from tests.support import jvm
from tests.support.wire_samples import layout_documents

FOLDERS = {
    "kafka-group-coordinator-4.3.1.jar": "common/message/",
    "kafka-clients-4.3.1.jar": "common/message/",
    "kafka-streams-4.3.1.jar": "common/message/",
    "kafka-metadata-4.3.1.jar": "common/metadata/",
}
# Kafka builds these layouts in code, or they are Partage's own. Vectors and parity test them.
WITHOUT_JSON = {"AssignmentInfo", "FailoverUserData", "PartageExtras", "StickyAssignorUserData"}
# Texts for readers, and hints for Kafka's own generators: no part of the bytes.
NO_LAYOUT = {"about", "entityType", "mapKey"}


@pytest.fixture(scope="module")
def definitions():
    """Kafka's definitions by name; builds the class path if it does not exist yet."""
    jvm.jvm_classpath()
    found = {}
    for jar, folder in FOLDERS.items():
        with zipfile.ZipFile(jvm.TARGET / "lib" / jar) as packed:
            for name in packed.namelist():
                if name.startswith(folder) and name.endswith(".json"):
                    definition = _parsed(packed.read(name).decode("utf-8"))
                    found[definition["name"]] = definition
    return found


def _parsed(text):
    """Kafka's JSON has lines of comment, and comments at the ends of lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("//", "/*"))]
    return json.loads("\n".join(re.sub(r"\s// .*", "", line) for line in lines))


def _layout(document):
    """What makes the layout, in one spelling: -1 and "-1" are equal, and so are false and none."""
    if isinstance(document, list):
        return [_layout(one) for one in document]
    if not isinstance(document, dict):
        return document
    kept = {name: _layout(value) for name, value in document.items() if name not in NO_LAYOUT}
    if kept.get("ignorable") in (False, "false"):
        del kept["ignorable"]
    if isinstance(kept.get("default"), int | str):
        kept["default"] = str(kept["default"])
    if "type" in kept and "validVersions" not in kept:
        # LastAssignmentConfigs has no versions: all versions of the message have the field.
        kept.setdefault("versions", "0+")
    return kept


@pytest.mark.jvm
@pytest.mark.parametrize("name", sorted(layout_documents().keys() - WITHOUT_JSON))
def test_a_layout_is_that_of_kafkas_definition(definitions, name):
    """Each document has the types, versions, tags and defaults of Kafka's, field by field."""
    assert _layout(layout_documents()[name]) == _layout(definitions[name])


@pytest.mark.jvm
def test_documents_without_a_definition_in_kafka_say_so(definitions):
    """Exactly the documents that no jar has tell where their layout comes from."""
    documents = layout_documents()
    assert documents.keys() - definitions.keys() == WITHOUT_JSON
    assert {name for name, one in documents.items() if "about" in one} == WITHOUT_JSON


@pytest.mark.jvm
def test_no_record_of_the_group_coordinator_is_missing(definitions):
    """A record type that a release adds is noticed here."""
    theirs = {name for name, d in definitions.items() if d["type"].startswith("coordinator-")}
    documents = layout_documents().values()
    assert theirs == {d["name"] for d in documents if d["type"].startswith("coordinator-")}
