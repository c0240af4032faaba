"""`partage keys`: which partition a key goes to, in every client; and which clients agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.consoles import name, out, write_json

if TYPE_CHECKING:
    from partage.keys.agreement import Agreement

__all__ = ["keys"]

_KEYS = 2000


def keys(
    who_agrees: Annotated[
        bool, typer.Option("--who-agrees", help="Run all partitioners on the same keys.")
    ] = False,
    partitioners: Annotated[
        bool, typer.Option("--list", help="List the partitioners and what each equals.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which partition a key goes to, and which clients agree on it.

    Two clients that put one key into two partitions break every join between their topics. The
    table is found by running them all on the same keys, at several counts of partitions.

        partage keys --who-agrees

        partage keys --list
    """
    if who_agrees:
        _who_agrees(as_json)
    elif partitioners:
        _list(as_json)
    else:
        raise typer.BadParameter("say what: --who-agrees or --list")


def _list(as_json: bool) -> None:
    from partage.keys import describe

    rows = describe()
    if as_json:
        write_json([row._asdict() for row in rows], indent=1)
        return
    console = out()
    for row in rows:
        console.print(name(f"{row.name:30}{row.exact_to or '-'}"), soft_wrap=True)
        console.print(name(f"  {row.summary}", "dim"), soft_wrap=True)


def _who_agrees(as_json: bool) -> None:
    from partage.keys.agreement import who_agrees

    found = who_agrees(keys=_KEYS)
    if as_json:
        write_json(_as_json(found), indent=1)
        return
    console = out()
    counts = ", ".join(map(str, found.counts))
    console.print(
        name(
            f"{found.keys:,} keys, each at {counts} partitions; a group agrees on every one", "bold"
        ),
        soft_wrap=True,
    )
    place = {one: i for i, one in enumerate(found.names)}
    for group in found.groups:
        console.print()
        console.print(name(group[0], "bold green"), soft_wrap=True)
        for one in group:
            special = f"null {found.null[place[one]]}; empty {found.empty[place[one]]}"
            console.print(name(f"  {one:30}{special}"), soft_wrap=True)
    console.print()
    console.print(name("of keys in the same partition, between groups", "bold"), soft_wrap=True)
    _shares(found)


def _shares(found: Agreement) -> None:
    console = out()
    heads = [group[0] for group in found.groups]
    place = [found.names.index(one) for one in heads]
    wide = max(map(len, heads)) + 4
    numbers = "".join(f"{i + 1:>6}" for i in range(len(heads)))
    console.print(name(" " * (wide + 2) + numbers, "dim"), soft_wrap=True)
    for i, one in enumerate(heads):
        shares = "".join(f"{found.share[place[i], j]:>6.0%}" for j in place)
        console.print(name(f"{i + 1:>2} {one:{wide - 1}}{shares}"), soft_wrap=True)


def _as_json(found: Agreement) -> dict[str, object]:
    return {
        "keys": found.keys,
        "partitions": list(found.counts),
        "groups": [list(group) for group in found.groups],
        "partitioners": [
            {"name": one, "null": null, "empty": empty}
            for one, null, empty in zip(found.names, found.null, found.empty, strict=True)
        ],
        "share": {
            one: {other: round(float(found.share[i, j]), 4) for j, other in enumerate(found.names)}
            for i, one in enumerate(found.names)
        },
    }
