"""`partage keys --key K` without an input: the partition of one key, in every client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partage.cli.consoles import name, out, write_json
from partage.errors import InvalidConfigError, InvalidKeysError

__all__ = ["serialized", "show_one_key"]

#: A time window behind the key, as Kafka Streams writes it: `streams:windowed` leaves it out.
_WINDOW = bytes(8)


def show_one_key(
    key: str, counts: Sequence[int], partitioner: str, serializer: str | None, *, as_json: bool
) -> None:
    """Print the partition of a key at each partition count, in every client that goes by keys.

    Raises:
        InvalidConfigError: a count or the serializer cannot be used.
        InvalidKeysError: the number does not fit the serializer.
        UnknownPartitionerError: there is no such partitioner.
    """
    from partage.keys import by_key, partition_for
    from partage.keys.registry import find

    data = serialized(key, serializer)
    chosen = find(partitioner).name
    names = [*by_key(), *([chosen] if chosen not in by_key() else [])]
    if not counts:
        raise InvalidConfigError("--partitions", "needs at least one count", "")
    rows: list[tuple[str, list[int | None]]] = []
    refused: dict[str, str] = {}
    for one in names:
        given = data + _WINDOW if one == "streams:windowed" else data
        try:
            placed = [int(partition_for(given, partitions=n, partitioner=one)[0]) for n in counts]
        except InvalidKeysError as e:
            # Some clients hash text only: the others have an answer for these bytes.
            refused[one] = e.what
            placed = [-1] * len(counts)
        rows.append((one, [at if at >= 0 else None for at in placed]))
    if as_json:
        document = {"key": key, "bytes": data.hex(), "serializer": serializer or "string"}
        write_json({**document, "partitioners": _plain(counts, rows, refused)}, indent=1)
        return
    console = out()
    form = serializer or "string"
    console.print(name(f"key {key!r}, {len(data)} bytes by {form}: partition", "bold"))
    wide = max(len(one) for one, _ in rows) + 2
    head = "".join(f"{f'of {n}':>10}" for n in counts)
    console.print(name(" " * wide + head, "dim"), soft_wrap=True)
    for one, found in rows:
        missing = "x" if one in refused else "-"
        cells = "".join(f"{missing if at is None else at:>10}" for at in found)
        console.print(name(f"{one:{wide}}{cells}"), soft_wrap=True)
    if any(None in found for one, found in rows if one not in refused):
        console.print(name("-: left to turns or chance", "dim"))
    for what in dict.fromkeys(refused.values()):
        console.print(name(f"x: no partition, the key {what}", "dim"))


def serialized(key: str, serializer: str | None) -> bytes:
    """Return the bytes of a key from the command line.

    Raises:
        InvalidConfigError: there is no such serializer, or the key is no number.
        InvalidKeysError: the number does not fit.

    >>> serialized("42", None), serialized("42", "short").hex()
    (b'42', '002a')
    """
    from partage.keys import serializers

    if serializer in {None, "string"}:
        return serializers.string(key)
    whole = {"short": serializers.short, "int": serializers.int_, "long": serializers.long_}
    real = {"float": serializers.float_, "double": serializers.double}
    try:
        if serializer in whole:
            return whole[serializer](int(key))
        if serializer in real:
            return real[serializer](float(key))
    except ValueError:
        raise InvalidConfigError("--key", f"is no number for {serializer}", key) from None
    known = ", ".join(["string", *whole, *real])
    raise InvalidConfigError("--serializer", f"is unknown; known: {known}", serializer)


def _plain(
    counts: Sequence[int],
    rows: Sequence[tuple[str, list[int | None]]],
    refused: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return a JSON object for each client; ``refused`` says why it cannot take the key."""
    return [
        {
            "name": one,
            "partitions": {str(n): at for n, at in zip(counts, found, strict=True)},
            **({"refused": refused[one]} if one in refused else {}),
        }
        for one, found in rows
    ]
