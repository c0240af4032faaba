"""Functions over records: `decode` (group log), `audit` and `count_keys` (keys of topics)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from partage.errors import InvalidConfigError, MissingExtraError, WireFormatError
from partage.model.arguments import check_argument_types
from partage.model.validation import reject_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partage.jobs.audit.audit import Audit
    from partage.jobs.keys.analysis import KeySpread
    from partage.jobs.replay.records import Slice

__all__ = ["argument_names", "audit", "count_keys", "decode"]

_AT_ONCE = 2_000
_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")


@overload
def decode(source: bytes | None, value: bytes | None = None) -> dict[str, Any]: ...
@overload
def decode(
    source: str | Path,
    *,
    types: Sequence[str | int] | None = None,
    groups: Sequence[str] | str | None = None,
) -> Iterator[dict[str, Any]]: ...
@overload
def decode(source: Iterable[Any], value: Iterable[Any] | None = None) -> list[dict[str, Any]]: ...
@check_argument_types
def decode(
    source: Any,
    value: Any = None,
    *,
    types: Sequence[str | int] | None = None,
    groups: Sequence[str] | str | None = None,
) -> dict[str, Any] | list[dict[str, Any]] | Iterator[dict[str, Any]]:
    r"""Decode records of Kafka's internal topic ``__consumer_offsets``.

    The input is one record, columns of records, or the path of a capture.

    Args:
        source: the key of a record as bytes; or a column of keys (a list, NumPy array, or column
            of Arrow, pandas or polars); or a table with columns ``key`` and ``value``; or the path
            of a capture or of a Parquet file with its columns.
        value: the value of the record, None for a tombstone; or a column as long as the keys'.
        types: record types, by name or number; None for all. Only with a path.
        groups: names or patterns (``orders-*``) of groups; None for all. Only with a path.

    Returns:
        For one record, the JSON object that ``partage decode`` prints; for columns, a list of
        these; for a path, an iterator. In columns and files, a record that cannot be decoded has
        ``error`` instead of ``type`` and ``key``. Columns ``partition``, ``offset`` and
        ``timestamp_ms`` of a table become fields.

    Raises:
        WireFormatError: the one record cannot be decoded.
        InvalidCaptureError: the path cannot be read.
        InvalidConfigError: an argument has a wrong type, or the columns differ in length.

    >>> decode(b"\x00\x03\x00\x01g", None)
    {'type': 'CONSUMER_GROUP_METADATA', 'key_version': 3, 'key': {'groupId': 'g'}, 'value': None}
    >>> [row["key"] for row in decode([b"\x00\x03\x00\x01g"], [None])]
    [{'groupId': 'g'}]
    """
    reject_text(types, "types")
    is_path = isinstance(source, str | Path)
    for name, filtering in (("types", types), ("groups", groups)):
        if filtering is not None and not is_path:
            raise InvalidConfigError(name, "needs the path of a capture as source", filtering)
    if is_path:
        if value is not None:
            raise InvalidConfigError("value", "must be left out if source is a path", value)
        patterns = [groups] if isinstance(groups, str) else groups
        numbers = _to_type_numbers(types)
        return _read_log(_slices(Path(source)), numbers, patterns)
    if source is None or isinstance(source, bytes | bytearray | memoryview):
        return _decoded(_bytes(source, "source"), _bytes(value, "value"), {})
    return _decode_columns(source, value)


def _decode_columns(source: Any, value: Any) -> list[dict[str, Any]]:
    if value is not None:
        columns = {"key": _to_list(source, "source"), "value": _to_list(value, "value")}
    else:
        table = _to_table(source)
        columns = {name: _to_list(table[name], name) for name in _COLUMNS if name in table}
        missing = [name for name in ("key", "value") if name not in columns]
        if missing:
            what = f"must have columns key and value; {missing[0]} is missing"
            raise InvalidConfigError("source", what, type(source).__name__)
    if len(columns["value"]) != len(columns["key"]):
        what = f"must have as many records as the column of keys ({len(columns['key'])})"
        raise InvalidConfigError("value", what, len(columns["value"]))
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [_record_to_json(row) for row in rows]


def _to_table(source: Any) -> Any:
    """Convert a table-like input to an object that returns columns by name.

    The input may be a mapping, a data frame (pandas, polars) or an Arrow table.

    Raises:
        InvalidConfigError: ``source`` is no table.
        MissingExtraError: pyarrow is not installed, and the table is a stream of Arrow data.
    """
    names = getattr(source, "columns", None)  # of pandas and polars
    if isinstance(source, Mapping) or (names is not None and hasattr(source, "to_dict")):
        return source
    if not hasattr(source, "__arrow_c_stream__"):
        what = "must be bytes, a path or a table; with a column of keys, give the values too"
        raise InvalidConfigError("source", what, type(source).__name__)
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", extra="report") from None
    found = pa.table(source)
    return dict(zip(found.column_names, found.columns, strict=True))


def _to_list(column: Any, argument: str) -> list[Any]:
    """Convert a column of a data frame or an array to a list, with None for missing values.

    Columns of pandas, polars, NumPy and Arrow are accepted.

    Args:
        column: the column of the data frame, or the array.
        argument: the caller's argument name, for the error message.

    Raises:
        InvalidConfigError: ``column`` is no column.
    """
    if isinstance(column, str | bytes | bytearray | Mapping) or not isinstance(column, Iterable):
        raise InvalidConfigError(argument, "must be a column: a list or an array", column)
    to_list = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
    if to_list is None:
        to_list = getattr(column, "to_list", None)
    found = list(column) if to_list is None else to_list()
    # pandas has NaN or NA where a value is missing; a key is bytes, a place is a number.
    return [None if _is_missing(one) else one for one in found]


def _is_missing(value: object) -> bool:
    if isinstance(value, float):
        return value != value  # noqa: PLR0124 - NaN
    return type(value).__name__ == "NAType"


def _bytes(given: Any, argument: str) -> bytes | None:
    if given is None or isinstance(given, bytes | bytearray | memoryview):
        return None if given is None else bytes(given)
    raise InvalidConfigError(argument, "must be bytes or None", given)


def _slices(source: Path) -> tuple[Slice, ...]:
    from partage.jobs.replay.capture import open_records

    return open_records(source)


def _read_log(
    slices: Iterable[Slice], types: set[int] | None, groups: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """Yield selected records of ``__consumer_offsets`` from Parquet files as JSON objects.

    A record that cannot be decoded is always yielded, with the field ``error``.

    Args:
        slices: row ranges of Parquet files to read.
        types: numbers of the record types to select; None for all.
        groups: names or patterns of the groups to select; None for all.
    """
    from partage.jobs.replay.capture import read_slice

    for piece in slices:
        for table in read_slice(piece, batch_rows=_AT_ONCE):
            columns = table.to_pydict()
            for row in zip(*(columns[name] for name in _COLUMNS), strict=True):
                line = _record_to_json(dict(zip(_COLUMNS, row, strict=True)))
                if "error" in line or (
                    (types is None or line["key_version"] in types)
                    and (not groups or _matches_group(line["key"], groups))
                ):
                    yield line


def _record_to_json(row: dict[str, Any]) -> dict[str, Any]:
    """Decode one record of ``__consumer_offsets`` to a JSON object.

    If the record cannot be decoded, the object has ``error`` instead of the decoded fields.

    Args:
        row: the record as a table row: key, value, partition, offset and time.
    """
    key, value = _bytes(row.pop("key"), "key"), _bytes(row.pop("value"), "value")
    try:
        return _decoded(key, value, row)
    except WireFormatError as e:
        row.pop("timestamp_ms", None)
        return {**row, "error": str(e)}


def _decoded(key: bytes | None, value: bytes | None, place: dict[str, Any]) -> dict[str, Any]:
    from partage.wire.group_log import decode_record
    from partage.wire.record_json import to_json

    return to_json(decode_record(key, value), **place)


def _matches_group(key: Mapping[str, Any], patterns: Sequence[str]) -> bool:
    """Return whether a record of ``__consumer_offsets`` belongs to a group that matches a pattern.

    Args:
        key: decoded key of the record, with the group's name.
        patterns: names or shell patterns of groups; one match is enough.
    """
    group = key.get("group", key.get("groupId"))
    return isinstance(group, str) and any(
        group == pattern or fnmatchcase(group, pattern) for pattern in patterns
    )


def _to_type_numbers(types: Sequence[str | int] | None) -> set[int] | None:
    """Convert record types of ``__consumer_offsets`` to their numbers.

    Each type is a name such as "OFFSET_COMMIT" or a number. None means all types; the result is
    then None too.

    Raises:
        InvalidConfigError: Kafka has no such record type; the error lists the types.
    """
    if types is None:
        return None
    from partage.wire.group_log import RECORD_TYPES

    by_name = {name: number for number, name in RECORD_TYPES.items()}
    by_name |= {str(number): number for number in RECORD_TYPES}
    for one in types:
        if str(one).upper() not in by_name:
            known = ", ".join(f"{number} {name}" for number, name in RECORD_TYPES.items())
            raise InvalidConfigError("types", f"no such record type; there are: {known}", one)
    return {by_name[str(one).upper()] for one in types}


@check_argument_types
def audit(
    source: str | Path,
    *,
    topics: Sequence[str] | None = None,
    joins: Sequence[Sequence[str]] = (),
    spark: SparkSession | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Audit:
    """Find which client's partitioner wrote each topic, and which topics can be joined by key.

    Two topics can be joined without repartitioning if their producers place equal keys in equal
    partitions.

    Args:
        source: a capture, Parquet with columns topic, partition, offset, timestamp_ms and key, or
            ``kafka://host:port/topic,topic``.
        topics: names of topics; None for all of the input.
        joins: sets of topics that are meant to be joined.
        spark: your session, which stays open; without it one is started.
        conf: more settings of Spark for a session that is started here, such as
            ``spark.jars.packages`` with the Kafka connector.
        kafka: properties of the client for ``kafka://``, by Kafka's names.
        progress: called with (stage, done, total).

    Raises:
        InvalidCaptureError, InvalidConfigError: the input cannot be used, or has no such topic.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    from partage.jobs.audit.audit import audit_topics

    if isinstance(joins, str) or any(isinstance(one, str) or len(set(one)) < 2 for one in joins):
        raise InvalidConfigError("joins", "must be a list of lists of two topics or more", joins)
    with argument_names(topic="topics", join="joins"):
        return audit_topics(
            str(source), topics=topics, joins=joins, spark=spark, conf=conf, kafka=kafka,
            progress=progress,
        )  # fmt: skip


@check_argument_types
def count_keys(
    source: str | Path,
    key: str = "key",
    *,
    partitions: Sequence[int] | int = (6, 12, 24, 48),
    value: str | None = None,
    time: str | None = None,
    partitioner: str = "murmur2",
    serializer: str | None = None,
    top: int = 10,
    max_share: float | None = None,
    max_rate: float | None = None,
    approximate: bool = False,
    spark: SparkSession | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> KeySpread:
    """Count how many records each partition of a topic would get with other partition counts.

    The result also has the most frequent keys, and the keys that move to another partition when the
    partition count changes. For keys in memory, use `partition_for`.

    Args:
        source: Parquet, CSV or JSON (file or folder), a Delta table, or an address
            (``kafka://host:port/topic``).
        key: column of the key, or a path into a struct (``meta.tenant``).
        partitions: the partition counts, in the order of the changes.
        value: column of the value, whose bytes are added to the key's.
        time: column of the time, for loads by hour.
        partitioner: a name of `partitioners` that decides by the key alone.
        serializer: Kafka serializer of a key column with numbers, such as ``long``.
        top: number of hottest keys.
        max_share: largest allowed share of one partition; the smallest count within is searched.
        max_rate: largest allowed records per second of one partition; needs ``time``.
        approximate: whether to drop rare keys early, to bound memory.
        spark: your session, which then does the work. Without one, files of up to 2 GiB are
            counted in this process.
        conf: more settings of Spark for a session that is started here, such as
            ``spark.jars.packages`` with the Kafka connector.
        kafka: properties of the client for ``kafka://``, by Kafka's names.
        progress: called with (stage, done, total).

    Raises:
        InvalidConfigError: input, column, count, limit or partitioner cannot be used.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    from partage.jobs.keys.analysis import analyse_keys
    from partage.jobs.keys.columns import InputColumns

    reject_text(partitions, "partitions", "numbers")
    counts = [partitions] if isinstance(partitions, int) else list(partitions)
    with argument_names(INPUT="source"):
        return analyse_keys(
            str(source), InputColumns(key, value, time), counts,
            partitioner=partitioner, serializer=serializer, top=top, max_share=max_share,
            max_rate=max_rate, approximate=approximate, spark=spark, conf=conf, kafka=kafka,
            progress=progress,
        )  # fmt: skip


@contextmanager
def argument_names(**names: str) -> Iterator[None]:
    """Rename command-line options to Python arguments in the errors of a ``with`` block.

    The command line and Python share code whose errors name an option, such as ``--max-share``. A
    Python caller then sees ``max_share``.

    Args:
        names: argument by option (without dashes), if they differ in more than dashes.

    >>> with argument_names(topic="topics"):
    ...     raise InvalidConfigError("--max-share", "must be positive", -1)
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: setting max_share: must be positive, got -1
    """
    try:
        yield
    except InvalidConfigError as e:
        name = e.setting.removeprefix("--").replace("-", "_")
        raise InvalidConfigError(names.get(name, name), e.what, e.value) from None
