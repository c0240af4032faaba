"""Message definitions inside Kafka's jars, in a form that compares by layout."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["definitions_of", "layout", "parse_definition"]

#: Texts for readers, and hints for Kafka's own generators: no part of the bytes.
_NO_LAYOUT = {"about", "entityType", "mapKey"}
_FOLDERS = ("common/message/", "common/metadata/")


def definitions_of(jars: list[Path]) -> dict[str, dict[str, Any]]:
    """Return the message definitions of some jars by name; of several equal names the last."""
    found: dict[str, dict[str, Any]] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as packed:
            for name in packed.namelist():
                if name.startswith(_FOLDERS) and name.endswith(".json"):
                    definition = parse_definition(packed.read(name).decode("utf-8"))
                    found[definition["name"]] = definition
    return found


def parse_definition(text: str) -> dict[str, Any]:
    """Parse Kafka's JSON, which has lines of comment, and comments at the ends of lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("//", "/*"))]
    parsed: dict[str, Any] = json.loads("\n".join(re.sub(r"\s// .*", "", line) for line in lines))
    return parsed


def layout(document: Any) -> Any:
    """Return what makes a layout, in one spelling: -1 and "-1" are equal, so are false and none."""
    if isinstance(document, list):
        return [layout(one) for one in document]
    if not isinstance(document, dict):
        return document
    kept = {name: layout(value) for name, value in document.items() if name not in _NO_LAYOUT}
    if kept.get("ignorable") in (False, "false"):
        del kept["ignorable"]
    if isinstance(kept.get("default"), int | str):
        kept["default"] = str(kept["default"])
    if "type" in kept and "validVersions" not in kept:
        # LastAssignmentConfigs has no versions: all versions of the message have the field.
        kept.setdefault("versions", "0+")
    return kept
