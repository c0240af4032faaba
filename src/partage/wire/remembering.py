"""Records of classic groups, read by somebody who has read the generation before.

From one generation to the next most members are who they were: the same id, client and timeouts,
byte for byte. What a member's bytes say depends on nothing around them, so a member that begins
with the bytes of one met before says the same, and is not read again. Where anything is not as
expected, the engine (`group_log`) reads the record from its beginning: values and errors are its.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Any

from partage.errors import WireFormatError
from partage.wire.group_log import RECORD_TYPES, DecodedRecord, decode_key, decode_value
from partage.wire.messages import VALUES
from partage.wire.primitives import Reader
from partage.wire.reading import ReadStruct, reader_of
from partage.wire.schema import Message, versions

__all__ = ["Remembering"]

_CLASSIC = 2
_SIZE = Struct(">i").unpack_from
#: Members that are remembered; of so many, all are forgotten at once. Some megabytes.
_MOST = 4_096
_LONGEST = 2_048


def _layouts() -> dict[int, tuple[ReadStruct, ReadStruct]]:
    """By version: readers of what stands before the members, and before a member's two payloads.

    A layout that is not of that form has no place here; the engine reads it.
    """
    value = VALUES[_CLASSIC]
    (member,) = value.structs
    forms = [f.type for f in member.fields[-2:]], value.fields[-1].type, member.fields[0].type
    if forms != (["bytes", "bytes"], f"[]{member.name}", "string"):
        return {}
    head = replace(value, fields=value.fields[:-1])
    first = Message(member.name, "data", value.valid, value.flexible, member.fields[:-2])
    lowest, highest = value.valid_versions.lowest, value.valid_versions.highest
    plain = [v for v in range(lowest, highest + 1) if v not in versions(value.flexible)]
    return {v: (reader_of(head, v), reader_of(first, v)) for v in plain}


_READERS = _layouts()
_MEMBERS = VALUES[_CLASSIC].fields[-1].key
_PAYLOADS = [f.key for f in VALUES[_CLASSIC].structs[0].fields[-2:]]


class Remembering:
    r"""Reads records as `group_log.decode_record` does, those of classic groups sooner.

    Values may share what did not change: look at them, do not change them.

    >>> Remembering().record(b"\x00\x03\x00\x01g", None)[:3]
    ('CONSUMER_GROUP_METADATA', 3, {'groupId': 'g'})
    """

    def __init__(self) -> None:
        #: By version: bytes of the id -> bytes up to the payloads, and what they say.
        self._known: dict[int, dict[bytes, tuple[bytes, dict[str, Any]]]] = {}

    def record(self, key: bytes | None, value: bytes | None) -> DecodedRecord:
        """One record.

        Raises:
            WireFormatError: as `group_log.decode_record`.
        """
        number, names = decode_key(key)
        name = RECORD_TYPES[number]
        if value is None:
            return DecodedRecord(name, number, names, None, None)
        made = self._classic(value) if number == _CLASSIC else None
        return DecodedRecord(name, number, names, *(made or decode_value(number, value)))

    def _classic(self, data: bytes) -> tuple[int, dict[str, Any]] | None:
        """Version and values; None where the engine is to say what they are."""
        version = int.from_bytes(data[:2], "big", signed=True)
        readers = _READERS.get(version) if len(data) >= 2 else None
        if readers is None:
            return None
        reader = Reader(data, 2)
        try:
            values = readers[0](reader)
            count = reader.int32()
            if not 0 <= count <= reader.left:
                return None
            members = self._members(reader, version, count)
        except WireFormatError:
            return None
        if members is None:
            return None
        values[_MEMBERS] = tuple(members)
        return version, values

    def _members(self, reader: Reader, version: int, count: int) -> list[dict[str, Any]] | None:
        """So many members; None where a payload's length is none."""
        data, end, at = reader.data, reader.end, reader.position
        known = self._known.setdefault(version, {})
        out: list[dict[str, Any]] = []
        for _ in range(count):
            # A length that is not within the bytes gives a key that nobody has.
            length = (data[at] << 8) | data[at + 1] if at + 2 <= end else 0
            before = known.get(data[at : at + 2 + length])
            if before is not None and data.startswith(before[0], at):
                at += len(before[0])
                said = before[1].copy()
            else:
                reader.position = at
                said = self._read(reader, version, known, length)
                at = reader.position
            for name in _PAYLOADS:
                if at + 4 > end:
                    return None
                stop = at + 4 + _SIZE(data, at)[0]
                if not at + 4 <= stop <= end:
                    return None
                said[name] = data[at + 4 : stop]
                at = stop
            out.append(said)
        return out

    def _read(
        self,
        reader: Reader,
        version: int,
        known: dict[bytes, tuple[bytes, dict[str, Any]]],
        length: int,
    ) -> dict[str, Any]:
        """A member up to its payloads, read by the engine and remembered."""
        start = reader.position
        said = _READERS[version][1](reader)
        head = reader.data[start : reader.position]
        if len(head) <= _LONGEST:
            if len(known) >= _MOST:
                known.clear()
            known[head[: 2 + length]] = head, said.copy()
        return said
