"""Our layouts against the message definitions that Kafka's own jars carry as JSON."""

from __future__ import annotations

import json
import re
import zipfile

import pytest

import jvm
from partage.wire.messages import MESSAGES
from partage.wire.schema import NOT_GIVEN

PLACE = "common/message/"
JARS = (
    "kafka-group-coordinator-4.3.1.jar",
    "kafka-clients-4.3.1.jar",
    "kafka-streams-4.3.1.jar",
)
# The sticky assignor builds its layout in code; its vectors are the test of that.
WITHOUT_JSON = {"StickyAssignorUserData"}


@pytest.fixture(scope="module")
def definitions():
    """Kafka's definitions by file name; builds the class path if it is not there yet."""
    jvm.jvm_classpath()
    found = {}
    for jar in JARS:
        with zipfile.ZipFile(jvm.TARGET / "lib" / jar) as packed:
            for name in packed.namelist():
                if name.startswith(PLACE) and name.endswith(".json"):
                    text = packed.read(name).decode("utf-8")
                    found[name.removeprefix(PLACE).removesuffix(".json")] = _parsed(text)
    return found


def _parsed(text):
    """Kafka's JSON has lines of comment, and comments at the ends of lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("//", "/*"))]
    return json.loads("\n".join(re.sub(r"\s// .*", "", line) for line in lines))


def _kafkas_field(field):
    return {
        "name": field["name"],
        "type": field["type"],
        "versions": field["versions"],
        "nullable": field.get("nullableVersions", "none"),
        "tag": field.get("tag"),
        "tagged": field.get("taggedVersions", "none"),
        "default": _number(field.get("default", NOT_GIVEN)),
        # SubscriptionInfoData.json has the word as a string.
        "ignorable": field.get("ignorable", False) in (True, "true"),
        "zero_copy": field.get("zeroCopy", False),
        "fields": [_kafkas_field(one) for one in field.get("fields", ())],
    }


def _our_field(field):
    return {
        "name": field.name,
        "type": field.type,
        "versions": field.versions,
        "nullable": field.nullable,
        "tag": field.tag,
        "tagged": field.tagged,
        "default": _number(field.default),
        "ignorable": field.ignorable,
        "zero_copy": field.zero_copy,
        "fields": [_our_field(one) for one in field.fields],
    }


def _number(default):
    """Kafka writes -1 as a number or as text; both are the same default."""
    try:
        return int(default)
    except (TypeError, ValueError):
        return default


def _filled(field):
    """LastAssignmentConfigs alone gives its versions; where none stand, all are meant."""
    return {"versions": "0+", **field, "fields": [_filled(one) for one in field.get("fields", ())]}


def _kafkas(definition):
    """The parts of a definition that make the layout; texts are left out."""
    return {
        "kind": definition["type"],
        "api_key": definition.get("apiKey"),
        "valid": definition["validVersions"],
        "flexible": definition["flexibleVersions"],
        "fields": [_kafkas_field(_filled(field)) for field in definition["fields"]],
        "structs": {
            struct["name"]: (
                struct["versions"],
                [_kafkas_field(_filled(f)) for f in struct["fields"]],
            )
            for struct in definition.get("commonStructs", ())
        },
    }


def _ours(message):
    return {
        "kind": message.kind,
        "api_key": message.api_key,
        "valid": message.valid,
        "flexible": message.flexible,
        "fields": [_our_field(field) for field in message.fields],
        "structs": {
            s.name: (s.versions, [_our_field(f) for f in s.fields]) for s in message.structs
        },
    }


@pytest.mark.jvm
def test_layouts_are_those_of_kafkas_definitions(definitions):
    """Every message of ours that has a definition says the same, field by field."""
    compared = 0
    for message in MESSAGES:
        if message.name not in WITHOUT_JSON:
            assert _ours(message) == _kafkas(definitions[message.name]), message.name
            compared += 1
    assert compared == len(MESSAGES) - len(WITHOUT_JSON)


@pytest.mark.jvm
def test_no_record_of_the_group_coordinator_is_missing(definitions):
    """A record type that a release adds is noticed here."""
    theirs = {name for name, d in definitions.items() if d["type"].startswith("coordinator-")}
    assert theirs == {m.name for m in MESSAGES if m.kind.startswith("coordinator-")}
