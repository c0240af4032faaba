"""Partage's layout documents against the message definitions in Kafka's own jars."""

from __future__ import annotations

import pytest
from tests.support import jvm
from tests.support.kafka_definitions import definitions_of, layout
from tests.support.wire_samples import layout_documents

JARS = ("group-coordinator", "clients", "streams", "metadata")
# Kafka builds these layouts in code, or they are Partage's own. Vectors and parity test them.
WITHOUT_JSON = {"AssignmentInfo", "FailoverUserData", "PartageExtras", "StickyAssignorUserData"}


@pytest.fixture(scope="module")
def definitions():
    """Kafka's definitions by name; builds the class path if it does not exist yet."""
    jvm.jvm_classpath()
    lib = jvm.TARGET / "lib"
    return definitions_of([lib / f"kafka-{name}-4.3.1.jar" for name in JARS])


@pytest.mark.jvm
@pytest.mark.parametrize("name", sorted(layout_documents().keys() - WITHOUT_JSON))
def test_a_layout_is_that_of_kafkas_definition(definitions, name):
    """Each document has the types, versions, tags and defaults of Kafka's, field by field."""
    assert layout(layout_documents()[name]) == layout(definitions[name])


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
