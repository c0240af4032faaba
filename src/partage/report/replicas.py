"""The page of `partage reassign`: brokers before and after, what moves where. Plain data in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partage.report.html import environment

__all__ = ["write_replicas_page"]

#: Brokers of one drawing, and moves of the table; more are in the JSON.
_MOST_BROKERS = 120
_MOST_MOVES = 200
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_NAMES = {
    "racks": "Replicas against the rack rule",
    "capacity": "Over capacity",
    "replicas": "Replicas outside bands",
    "leaders": "Leaders outside bands",
    "bytes": "Bytes outside bands",
    "load": "Load outside bands",
    "moved": "Moved",
}


def write_replicas_page(told: Mapping[str, Any], path: Path) -> Path:
    """The page, as one offline file.

    Args:
        told: what ``partage reassign ... --json`` prints.
        path: of the page.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: it cannot be written.
    """
    text = environment().get_template("replicas.html.j2").render(
        title=told["command"],
        headline=_headline(told),
        lead=_lead(told),
        figures=_figures(told),
        kinds=[_drawing(told, kind) for kind in told["brokers"][0]["before"]],
        hidden=max(0, len(told["brokers"]) - _MOST_BROKERS),
        network=_network(told),
        batches=[_batch(i, row) for i, row in enumerate(told["batches"][:_MOST_MOVES], 1)],
        moves=[
            {**one, "size": _amount(one["bytes"]) if "bytes" in one else ""}
            for one in told["moves"][:_MOST_MOVES]
        ],
        more_moves=max(0, len(told["moves"]) - _MOST_MOVES),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    return path


def _amount(count: float) -> str:
    unit = 0
    while count >= 999.95 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{count:.0f} B"


def _shown(kind: str, value: float) -> str:
    if kind in {"bytes", "capacity"}:
        return _amount(value)
    return f"{_amount(value)}/s" if kind == "load" else f"{value:,.0f}"


def _headline(told: Mapping[str, Any]) -> str:
    copied = told["replicas_moved"]
    if not copied:
        return "No data moves" if told["partitions_changed"] else "Nothing has to change"
    size = f", {_amount(told['bytes_moved'])}" if told["bytes_moved"] is not None else ""
    one = "replica is" if copied == 1 else "replicas are"
    return f"{copied:,} {one} copied{size}"


def _lead(told: Mapping[str, Any]) -> str:
    if told["optimal"]:
        return "Proven: no plan is better."
    return f"Of what is moved at most {told['gap']:.2%} is not proven necessary."


def _figures(told: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for key, name in _NAMES.items():
        kind = told["unit"] if key == "moved" else key
        before = told["before"].get(key) if key != "moved" else None
        rows.append({
            "name": name,
            "before": "" if before is None else _shown(kind, before),
            "after": _shown(kind, told["figures"][key]),
            "bound": _shown(kind, told["bounds"][key]),
        })  # fmt: skip
    return rows


def _drawing(told: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Bars of a kind: of each broker what it had, what it has, and its band."""
    rows: Sequence[Mapping[str, Any]] = told["brokers"][:_MOST_BROKERS]
    values = [row[when][kind] for row in rows for when in ("before", "after")]
    most = max([*values, *(row["band"][kind][1] for row in rows), 1])
    bars = []
    for row in rows:
        low, high = row["band"][kind]
        was, now = row["before"][kind], row["after"][kind]
        bars.append({
            "broker": row["id"],
            "rack": row["rack"] or "",
            "was": round(100 * was / most, 2),
            "now": round(100 * now / most, 2),
            "left": round(100 * low / most, 2),
            "wide": round(100 * (high - low) / most, 2),
            "out": not low <= now <= high,
            "label": f"broker {row['id']}: {_shown(kind, was)}, then {_shown(kind, now)}; "
            f"band {_shown(kind, low)} to {_shown(kind, high)}",
            "text": _shown(kind, now),
        })  # fmt: skip
    return {"kind": kind, "bars": bars}


def _network(told: Mapping[str, Any]) -> list[dict[str, str]]:
    sized = told["bytes_moved"] is not None
    return [
        {
            "from": pair["from"] or "no rack",
            "to": pair["to"] or "no rack",
            "amount": _amount(pair["bytes"]) if sized else f"{pair['replicas']:,} replicas",
        }
        for pair in told["network"]
    ]


def _batch(number: int, row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "number": str(number),
        "partitions": f"{row['partitions']:,}",
        "replicas": f"{row['replicas']:,}",
        "bytes": _amount(row["bytes"]),
        "seconds": f"{row['seconds']:,.0f} s" if "seconds" in row else "",
    }
