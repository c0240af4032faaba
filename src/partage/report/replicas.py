"""The HTML page of `partage reassign`: brokers before and after, and the moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partage.report.html import write_template

__all__ = ["write_replicas_page"]

#: Brokers of one drawing, and moves of the table; the JSON document has all.
_MAX_BROKERS = 120
_MAX_MOVES = 200
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_NAMES = {
    "racks": "Replicas against the rack rule", "capacity": "Over capacity",
    "between brokers": "Moved between brokers", "moved": "Moved",
}  # fmt: skip


def write_replicas_page(plan: Mapping[str, Any], path: Path) -> Path:
    """Write the HTML page of `partage reassign`, one file that works offline.

    The page shows the load of each broker before and after the plan, and the replicas that move.

    Args:
        plan: JSON document of ``partage reassign``.
        path: path of the page.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    return write_template(
        "replicas.html.j2", path,
        title=plan["command"],
        headline=_headline(plan),
        lead=_lead(plan),
        figures=_figures(plan),
        kinds=[_build_chart(plan, kind) for kind in plan["brokers"][0]["before"]],
        hidden=max(0, len(plan["brokers"]) - _MAX_BROKERS),
        racks=_rack_bars(plan),
        disks=_disk_bars(plan),
        more_disks=max(0, len(plan["disks"]) - _MAX_BROKERS),
        network=_network(plan),
        batches=[_batch(i, row) for i, row in enumerate(plan["batches"][:_MAX_MOVES], 1)],
        moves=[
            {
                **one,
                "size": _amount(one["bytes"]) if "bytes" in one else "",
                "source": _format_location(one, "from"),
                "target": _format_location(one, "to"),
            }
            for one in plan["moves"][:_MAX_MOVES]
        ],
        more_moves=max(0, len(plan["moves"]) - _MAX_MOVES),
    )  # fmt: skip


def _amount(count: float) -> str:
    unit = 0
    while count >= 999.95 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{count:.0f} B"


def _shown(kind: str, value: float) -> str:
    if kind in {"bytes", "capacity"}:
        return _amount(value)
    return f"{_amount(value)}/s" if kind == "load" else f"{value:,.0f}"


def _format_location(move: Mapping[str, Any], side: str) -> str:
    """Return the source or the target of a replica move as text: the broker and its log directory.

    ``move`` is one move of the JSON document. ``side`` is ``from`` for the source and ``to`` for
    the target. The result is empty if there is none.
    """
    if move[side] is None:
        return ""
    folder = move.get(f"{side}_dir")
    return str(move[side]) if folder is None else f"{move[side]} {folder}"


def _headline(plan: Mapping[str, Any]) -> str:
    copied, inner = plan["replicas_moved"], plan["replicas_between_disks"]
    if not copied + inner:
        return "No data moves" if plan["partitions_changed"] else "Nothing has to change"
    sized = plan["bytes_moved"] is not None
    parts = []
    for count, key, how in (
        (copied, "bytes_moved", "between brokers"), (inner, "bytes_between_disks", "between disks")
    ):  # fmt: skip
        if count:
            size = f", {_amount(plan[key])}," if sized else ""
            parts.append(f"{count:,} {'replica is' if count == 1 else 'replicas are'} copied"
                         f"{size} {how}")  # fmt: skip
    return "; ".join(parts)


def _lead(plan: Mapping[str, Any]) -> str:
    if plan["optimal"]:
        return "Proven: no plan is better."
    between, line = plan["figures"].get("between brokers"), ""
    if between:
        share = (between - plan["bounds"]["between brokers"]) / between
        line = f" Between brokers: gap {share:.2%}."
    moved, bound = (_shown(plan["unit"], plan[one]["moved"]) for one in ("figures", "bounds"))
    gap = f"gap {plan['gap']:.2%}"
    return f"Lower bound, verified: at least {bound} of the {moved} must move; {gap}.{line}"


def _has_data_for(plan: Mapping[str, Any], metric: str) -> bool:
    """Return whether a reassignment plan has the data that a metric needs, such as disk sizes.

    Metrics without data are not shown. ``plan`` is the JSON document of ``partage reassign``, and
    ``metric`` a key of its field ``figures``.
    """
    kind = metric.rpartition(" ")[2]
    if kind == "capacity":
        return bool(plan["figures"][metric])
    return kind not in {"bytes", "load"} or kind in plan["brokers"][0]["before"]


def _figures(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for key in plan["figures"]:
        if not _has_data_for(plan, key):
            continue
        moves = key in {"moved", "between brokers"}
        kind = plan["unit"] if moves else key.rpartition(" ")[2]
        before = None if moves else plan["before"].get(key)
        rows.append({
            "name": _NAMES.get(key, f"{key} outside bands".capitalize()),
            "before": "" if before is None else _shown(kind, before),
            "after": _shown(kind, plan["figures"][key]),
            "bound": _shown(kind, plan["bounds"][key]),
        })  # fmt: skip
    return rows


def _build_chart(plan: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the data of a bar chart with each broker's use of one resource, before and after a
    plan.

    The chart also shows the balance band, which is the range of use that counts as balanced.

    Args:
        plan: JSON document of ``partage reassign``.
        kind: the resource, such as ``bytes`` or ``replicas``.
    """
    # The bars also show the balance band, the range of use that counts as balanced.
    rows = [
        (f"broker {row['id']}", str(row["id"]), row["rack"] or "",
         row["before"][kind], row["after"][kind], row["band"][kind])
        for row in plan["brokers"][:_MAX_BROKERS]
    ]  # fmt: skip
    return {"kind": kind, "bars": _bars(rows, kind)}


def _rack_bars(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the data of bar charts with each rack's use of resources, before and after a plan.

    There is one chart per resource, such as disk space. Only racks with a balance band (the range
    of use that counts as balanced) are shown.
    """
    # Only racks with a balance band (the range of use that counts as balanced) have bars.
    known = [row for row in plan["racks"] if "band" in row][:_MAX_BROKERS]
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


def _disk_bars(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the data of a bar chart with the bytes in each log directory, before and after a plan.

    The chart counts replicas if sizes are unknown. ``plan`` is the JSON document of ``partage
    reassign``.
    """
    # The unit is replicas if sizes are unknown.
    rows = [
        (f"broker {row['broker']}, {row['path']}", str(row["broker"]), row["path"],
         row["before"], row["after"], row["band"])
        for row in plan["disks"][:_MAX_BROKERS]
    ]  # fmt: skip
    return _bars(rows, plan["unit"])


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


def _network(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    sized = plan["bytes_moved"] is not None
    return [
        {
            "from": pair["from"] or "no rack",
            "to": pair["to"] or "no rack",
            "amount": _amount(pair["bytes"]) if sized else f"{pair['replicas']:,} replicas",
        }
        for pair in plan["network"]
    ]


def _batch(number: int, row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "number": str(number),
        "partitions": f"{row['partitions']:,}",
        "replicas": f"{row['replicas']:,}",
        "bytes": _amount(row["bytes"]),
        "seconds": f"{row['seconds']:,.0f} s" if "seconds" in row else "",
    }
