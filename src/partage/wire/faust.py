r"""User data of Faust's workers: JSON in a subscription, compressed JSON in an assignment.

Both have the same structure (faust-streaming 0.15.3, ``ClientMetadata``), in this order::

    {"assignment": {"actives": {topic: [number, ...]}, "standbys": {...}},
     "url": "http://host:6066",
     "changelog_distribution": {url: {topic: [number, ...]}},
     "external_topic_distribution": {url: {topic: [number, ...]}},
     "topic_groups": {topic: number}}

The last two keys are optional, and the last value may be null. Unknown keys are ignored, because a
later release may add some. Faust accepts any JSON (a partition named "a", a list in place of a map)
and fails later, for the whole group. Here such JSON is an error at once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from partage.errors import WireFormatError

__all__ = [
    "LARGEST_METADATA",
    "ByTopic",
    "FaustMetadata",
    "read_faust_assignment",
    "read_faust_subscription",
    "write_faust_assignment",
    "write_faust_subscription",
]

LARGEST_METADATA = 32 * 2**20
"""The most bytes of JSON that are accepted, after decompression too.

A kilobyte of zlib can hold a megabyte. 1,000 workers on 10,000 partitions need about one megabyte.
"""

ByTopic = Mapping[str, Sequence[int]]

_LARGEST_PARTITION = 2**31 - 1
_SHOWN_CHARACTERS = 40
_PATH = "userData"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class FaustMetadata:
    """The decoded user data of a worker of the Faust library: its partitions and its address.

    Workers send it with a subscription, and receive it with an assignment.

    Attributes:
        actives: dict from topic to numbers of the worker's active partitions.
        standbys: dict from topic to numbers of the worker's standby partitions.
        url: the address of the worker's web server.
        changelogs: active partitions of changelog topics, by worker URL and topic.
        others: active partitions of all other topics, by worker URL and topic.
        groups: dict from topic to its topic group; topics of a group have equal partition counts.

    >>> FaustMetadata({"t": [0]}, url="http://a:6066").standbys
    {}
    """

    actives: ByTopic = field(default_factory=dict)
    standbys: ByTopic = field(default_factory=dict)
    url: str = ""
    changelogs: Mapping[str, ByTopic] = field(default_factory=dict)
    others: Mapping[str, ByTopic] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)


def write_faust_subscription(metadata: FaustMetadata) -> bytes:
    """Encode the user data that a Faust worker sends when it joins its group, as JSON bytes.

    They equal the bytes of Faust if the package orjson is not installed.

    >>> write_faust_subscription(FaustMetadata({"t": [0]}))[:47]
    b'{"assignment":{"actives":{"t":[0]},"standbys":{'
    """
    value = {
        "assignment": {"actives": _lists(metadata.actives), "standbys": _lists(metadata.standbys)},
        "url": metadata.url,
        "changelog_distribution": {u: _lists(t) for u, t in metadata.changelogs.items()},
        "external_topic_distribution": {u: _lists(t) for u, t in metadata.others.items()},
        "topic_groups": dict(metadata.groups),
    }
    return json.dumps(value, separators=(",", ":")).encode()


def write_faust_assignment(metadata: FaustMetadata) -> bytes:
    """Encode the user data that a Faust leader sends to a worker (JSON compressed with zlib).

    >>> read_faust_assignment(write_faust_assignment(FaustMetadata({"t": [3]}))).actives
    {'t': [3]}
    """
    return zlib.compress(write_faust_subscription(metadata))


def read_faust_assignment(data: bytes) -> FaustMetadata:
    """Decode the user data that a Faust leader sent to a worker (JSON compressed with zlib).

    Raises:
        WireFormatError: the bytes are not a zlib stream, decompress to more than
            `LARGEST_METADATA`, or are not JSON of this structure.
    """
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, LARGEST_METADATA + 1)
    except zlib.error as e:
        raise WireFormatError(f"no zlib stream ({e})", offset=0, field=_PATH) from None
    if len(text) > LARGEST_METADATA:
        what = f"unpacks to more than {LARGEST_METADATA} bytes"
        raise WireFormatError(what, offset=0, field=_PATH)
    if not unpacking.eof:
        what = f"the zlib stream ends early, after {len(data)} bytes"
        raise WireFormatError(what, offset=len(data), field=_PATH)
    return read_faust_subscription(text)


def read_faust_subscription(data: bytes) -> FaustMetadata:
    """Decode the user data that a Faust worker sent when it joined its group (JSON).

    Raises:
        WireFormatError: the bytes are not UTF-8 JSON of this structure; ``field`` is the path in
            it.

    >>> read_faust_subscription(b'{"assignment":{"actives":[]}}')
    Traceback (most recent call last):
    ...
    partage.errors.WireFormatError: userData.assignment.standbys at byte 0: is missing
    """
    top = _mapping(_parsed(data), _PATH)
    assignment = _mapping(_of(top, "assignment", _PATH), f"{_PATH}.assignment")
    path = f"{_PATH}.assignment"
    standbys = _of(assignment, "standbys", path)
    url = _of(top, "url", _PATH)
    if not isinstance(url, str):
        _fail(f"no text: {_short(url)}", f"{_PATH}.url")
    return FaustMetadata(
        actives=_by_topic(_of(assignment, "actives", path), f"{path}.actives"),
        standbys=_by_topic(standbys, f"{path}.standbys"),
        url=url,
        changelogs=_distribution(top, "changelog_distribution"),
        others=_distribution(top, "external_topic_distribution", missing={}),
        groups=_read_each(top.get("topic_groups") or {}, f"{_PATH}.topic_groups", _number),
    )


def _lists(by_topic: ByTopic) -> dict[str, list[int]]:
    return {topic: list(numbers) for topic, numbers in by_topic.items()}


def _parsed(data: bytes) -> object:
    if len(data) > LARGEST_METADATA:
        _fail(f"{len(data)} bytes, more than {LARGEST_METADATA}", _PATH)
    try:
        return json.loads(data.decode(), parse_constant=_no_constant)
    except json.JSONDecodeError as e:
        raise WireFormatError(f"no JSON ({e.msg})", offset=e.pos, field=_PATH) from None
    except UnicodeDecodeError as e:
        raise WireFormatError("no UTF-8", offset=e.start, field=_PATH) from None
    except (ValueError, RecursionError) as e:  # an int of 5,000 digits, lists a thousand deep
        raise WireFormatError(f"no JSON ({e})", offset=0, field=_PATH) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _fail(what: str, path: str) -> NoReturn:
    # Parsed JSON has no offsets.
    raise WireFormatError(what, offset=0, field=path)


def _short(value: object) -> str:
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _of(mapping: Mapping[str, Any], key: str, path: str) -> object:
    if key not in mapping:
        _fail("is missing", f"{path}.{key}")
    return mapping[key]


def _mapping(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _fail(f"no object: {_short(value)}", path)
    return value


def _read_each(
    value: object, path: str, read: Callable[[object, str], _Value]
) -> dict[str, _Value]:
    return {key: read(one, f"{path}.{key}") for key, one in _mapping(value, path).items()}


def _distribution(
    top: Mapping[str, Any], key: str, missing: object = None
) -> dict[str, dict[str, list[int]]]:
    value = _of(top, key, _PATH) if missing is None else top.get(key, missing)
    return _read_each(value, f"{_PATH}.{key}", _by_topic)


def _by_topic(value: object, path: str) -> dict[str, list[int]]:
    return _read_each(value, path, _numbers)


def _numbers(value: object, path: str) -> list[int]:
    if not isinstance(value, list):
        _fail(f"no list: {_short(value)}", path)
    # Lists have thousands of numbers, nearly always valid: one check for all of them.
    if set(map(type, value)) <= {int} and (
        not value or (min(value) >= 0 and max(value) <= _LARGEST_PARTITION)
    ):
        return value
    return [_number(one, path) for one in value]


def _number(value: object, path: str) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_PARTITION:
        _fail(f"no partition number: {_short(value)}", path)
    return value
