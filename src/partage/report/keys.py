"""The page of `partage keys`: bars by partition, hot keys, changes, hours. Plain data in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partage.report.html import environment

__all__ = ["write_keys_page"]

#: Bars of one count; more partitions share a bar, which shows the fullest of them.
_MOST_BARS = 200
_HOURS = 5


def write_keys_page(
    found: Mapping[str, Any],
    loads: Mapping[int, Sequence[tuple[int, int]]],
    path: Path,
    *,
    title: str,
    partitioner: str,
    advice: Sequence[str],
    shown: Sequence[str],
) -> Path:
    """The page, as one offline file.

    Args:
        found: what ``partage keys --json`` prints.
        loads: partition count -> (partition, records) of those that have any.
        path: of the page.
        title: what was read.
        partitioner: who placed the keys.
        advice: sentences.
        shown: the hottest keys as one reads them.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: it cannot be written.
    """
    most = max((h["records"] for h in found["hottest"]), default=1)
    hottest = [
        h | {"shown": words, "width": round(100 * h["records"] / most, 2)}
        for h, words in zip(found["hottest"], shown, strict=True)
    ]
    text = environment().get_template("keys.html.j2").render(
        found=found,
        title=title,
        partitioner=partitioner,
        headline=_headline(found),
        lead=_lead(found),
        counts=[
            {"load": load, "bars": _bars(load, loads.get(load["partitions"], ()))}
            for load in found["spread"]
        ],
        hottest=hottest,
        hours=_worst(found["hours"]),
        advice=advice,
    )  # fmt: skip
    path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    return path


def _headline(found: Mapping[str, Any]) -> str:
    if not found["hottest"]:
        return "No record has a key"
    best = min(found["spread"], key=lambda load: load["spread"])
    return (
        f"With {best['partitions']:,} partitions the fullest has {best['spread']:.2f} times "
        f"the mean; one key alone is {found['floor']:.1%}"
    )


def _lead(found: Mapping[str, Any]) -> str:
    keys = "" if found["keys"] is None else f"{found['keys']:,} keys in "
    without = f", {found['without_key']:,} of them without a key" if found["without_key"] else ""
    return f"{keys}{found['records']:,} records{without}."


def _bars(load: Mapping[str, Any], records: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    partitions = load["partitions"]
    bars = min(partitions, _MOST_BARS)
    fullest = [(0, 0)] * bars
    for partition, count in records:
        at = partition * bars // partitions
        fullest[at] = max(fullest[at], (count, partition))
    return [
        {
            "height": round(100 * count / max(1, load["most"]), 1),
            "most": bool(count) and count == load["most"],
            "label": f"partition {partition}: {count:,} records",
        }
        for count, partition in fullest
    ]  # fmt: skip


def _worst(hours: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    out: list[Mapping[str, Any]] = []
    for count in dict.fromkeys(h["partitions"] for h in hours):
        mine = [h for h in hours if h["partitions"] == count]
        out += sorted(mine, key=lambda h: h["most"], reverse=True)[:_HOURS]
    return out
