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
    "racks": "Replicas against the rack rule", "capacity": "Over capacity",
    "between brokers": "Moved between brokers", "moved": "Moved",
}  # fmt: skip


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
        racks=_racks(told),
        disks=_disks(told),
        more_disks=max(0, len(told["disks"]) - _MOST_BROKERS),
        network=_network(told),
        batches=[_batch(i, row) for i, row in enumerate(told["batches"][:_MOST_MOVES], 1)],
        moves=[
            {
                **one,
                "size": _amount(one["bytes"]) if "bytes" in one else "",
                "source": _end(one, "from"),
                "target": _end(one, "to"),
            }
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


def _end(move: Mapping[str, Any], which: str) -> str:
    """A broker, and the directory where a replica goes from one to another there."""
    if move[which] is None:
        return ""
    folder = move.get(f"{which}_dir")
    return str(move[which]) if folder is None else f"{move[which]} {folder}"


def _headline(told: Mapping[str, Any]) -> str:
    copied, inner = told["replicas_moved"], told["replicas_between_disks"]
    if not copied + inner:
        return "No data moves" if told["partitions_changed"] else "Nothing has to change"
    sized = told["bytes_moved"] is not None
    parts = []
    for count, key, how in (
        (copied, "bytes_moved", "between brokers"), (inner, "bytes_between_disks", "between disks")
    ):  # fmt: skip
        if count:
            size = f", {_amount(told[key])}," if sized else ""
            parts.append(f"{count:,} {'replica is' if count == 1 else 'replicas are'} copied"
                         f"{size} {how}")  # fmt: skip
    return "; ".join(parts)


def _lead(told: Mapping[str, Any]) -> str:
    if told["optimal"]:
        return "Proven: no plan is better."
    between, line = told["figures"].get("between brokers"), ""
    if between:
        share = (between - told["bounds"]["between brokers"]) / between
        line = f" Between brokers: gap {share:.2%}."
    moved, bound = (_shown(told["unit"], told[one]["moved"]) for one in ("figures", "bounds"))
    gap = f"gap {told['gap']:.2%}"
    return f"Lower bound, verified: {bound} of the {moved} have to be moved; {gap}.{line}"


def _is_known(told: Mapping[str, Any], figure: str) -> bool:
    kind = figure.rpartition(" ")[2]
    if kind == "capacity":
        return bool(told["figures"][figure])
    return kind not in {"bytes", "load"} or kind in told["brokers"][0]["before"]


def _figures(told: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for key in told["figures"]:
        if not _is_known(told, key):
            continue
        moves = key in {"moved", "between brokers"}
        kind = told["unit"] if moves else key.rpartition(" ")[2]
        before = None if moves else told["before"].get(key)
        rows.append({
            "name": _NAMES.get(key, f"{key} outside bands".capitalize()),
            "before": "" if before is None else _shown(kind, before),
            "after": _shown(kind, told["figures"][key]),
            "bound": _shown(kind, told["bounds"][key]),
        })  # fmt: skip
    return rows


def _drawing(told: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Bars of a kind: of each broker what it had, what it has, and its band."""
    rows = [
        (f"broker {row['id']}", str(row["id"]), row["rack"] or "",
         row["before"][kind], row["after"][kind], row["band"][kind])
        for row in told["brokers"][:_MOST_BROKERS]
    ]  # fmt: skip
    return {"kind": kind, "bars": _bars(rows, kind)}


def _racks(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of racks, where they have bands."""
    known = [row for row in told["racks"] if "band" in row][:_MOST_BROKERS]
    return [
        {
            "kind": kind,
            "bars": _bars([
                (f"rack {row['rack'] or '(none)'}", row["rack"] or "no rack",
                 f"{row['brokers']} brokers", row["before"][kind], row["after"][kind],
                 row["band"][kind])
                for row in known
            ], kind),
        }
        for kind in (known[0]["band"] if known else ())
    ]  # fmt: skip


def _disks(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of log directories: bytes, or replicas where sizes are unknown."""
    rows = [
        (f"broker {row['broker']}, {row['path']}", str(row["broker"]), row["path"],
         row["before"], row["after"], row["band"])
        for row in told["disks"][:_MOST_BROKERS]
    ]  # fmt: skip
    return _bars(rows, told["unit"])


def _bars(rows: Sequence[tuple[str, str, str, int, int, list[int]]], kind: str) -> list[Any]:
    most = max([value for row in rows for value in (row[3], row[4], row[5][1])], default=1) or 1
    return [
        {
            "name": short,
            "rack": beside,
            "was": round(100 * was / most, 2),
            "now": round(100 * now / most, 2),
            "left": round(100 * low / most, 2),
            "wide": round(100 * (high - low) / most, 2),
            "out": not low <= now <= high and high > 0,
            "label": f"{name}: {_shown(kind, was)}, then {_shown(kind, now)}; "
            f"band {_shown(kind, low)} to {_shown(kind, high)}",
            "text": _shown(kind, now),
        }
        for name, short, beside, was, now, (low, high) in rows
    ]


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
