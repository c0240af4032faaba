"""Layouts of Kafka's messages, as JSON documents in the form of Kafka's own definitions.

Each document has the name that it has in Kafka's jars. Documents with an ``about`` are Partage's
own: Kafka has no JSON of them. ``tests/unit/wire/test_schema_drift.py`` compares all others with
the jars, so that a new Kafka release shows as a difference.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pkgutil import get_data

from partage.wire.schema import Message, parse_message

__all__ = ["load_message"]


@lru_cache(maxsize=128)
def load_message(name: str) -> Message:
    """Load the layout of a Kafka message by its name from the JSON definitions in this package.

    Raises:
        FileNotFoundError: there is no definition of that name.

    >>> load_message("OffsetCommitValue").versions
    Versions(lowest=0, highest=4)
    """
    document = get_data(__name__, f"{name}.json")
    if document is None:
        raise FileNotFoundError(f"the loader of {__name__} cannot read {name}.json")
    return parse_message(json.loads(document))
