"""What `partage keys` advises: about the hottest key, who shares its partition, and the limits."""

from __future__ import annotations

from datetime import datetime, timezone
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partage.jobs.keys.analysis import KeySpread

__all__ = ["advice", "shown"]

#: Keys named that share a partition.
_NAMED = 3


def shown(key: bytes) -> str:
    """A key as one reads it: text where it is text, else its bytes in hex.

    >>> shown(b"veh-1"), shown(bytes(4)), shown(b"")
    ('veh-1', '0x00000000', "''")
    """
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    if not text:
        return "''"
    return text if text.isprintable() else f"0x{key.hex()}"


def advice(found: KeySpread) -> list[str]:
    """Sentences, the most important one first."""
    hot = found.hottest[0]
    lines = [
        f"No partition count can bring the hottest partition below {found.floor:.2%}: key "
        f"{shown(hot.key)} alone is that much."
    ]
    lines += _shared(found)
    lines += _salted(found)
    if found.moves:
        lines.append(
            "A key that moves has its older records in one partition and its newer ones in "
            "another: their order is broken, and so is every join."
        )
    limit = _limit(found)
    if limit:
        if found.smallest is not None:
            lines.append(f"{found.smallest:,} partitions are the fewest that keep the hottest one "
                         f"within {limit}.")  # fmt: skip
        elif found.tried == 0:
            lines.append(f"No partition count keeps the hottest one within {limit}: one key alone "
                         "is more.")  # fmt: skip
        elif found.tried is None:
            lines.append(f"Which count keeps within {limit} needs an exact run.")
        else:
            lines.append(f"No partition count up to {found.tried:,} keeps within {limit}.")
    return lines


def _limit(found: KeySpread) -> str:
    """What was asked of the hottest partition, and what a rate was taken of."""
    words = [] if found.max_share is None else [f"{found.max_share:.1%} of all records"]
    if found.max_rate is not None:
        told = f"{found.max_rate:,g} records a second"
        if found.rate_hour is not None:
            when = datetime.fromtimestamp(found.rate_hour / 1000, timezone.utc)
            told += (
                f" in the hour from {when:%Y-%m-%d %H:%M} UTC, in which one partition got most "
                f"(the input has {found.rate_seconds:,.0f} s of it)"
            )
        words.append(told)
    return " and ".join(words)


def _shared(found: KeySpread) -> list[str]:
    """Who is in the hottest partition at each count, as far as the hottest keys tell."""
    lines = []
    for n, load in found.loads.items():
        mine = [h for h in found.hottest if found.hot_at.get(h.key, {}).get(n) == load.hottest]
        if not mine or n == 1:
            continue
        told = [f"{shown(h.key)} ({h.share:.1%})" for h in mine[:_NAMED]]
        rest = load.share - sum(h.share for h in mine[:_NAMED])
        others = f" and others ({rest:.1%})" if rest >= 0.0005 else " alone"
        lines.append(f"With {n:,} partitions the hottest one has {', '.join(told)}{others}.")
    return lines


def _salted(found: KeySpread) -> list[str]:
    """Into how many keys each hot one must be split for its parts to be no more than even."""
    most = max(found.loads)
    allowed = found.max_share if found.max_share is not None else 1 / most
    hot = [h for h in found.hottest if h.share > allowed and h.records > 2 * h.share / allowed]
    if not hot:
        return []
    parts = [ceil(h.share / allowed - 1e-9) for h in hot]
    told = [f"{shown(h.key)} into {n:,}" for h, n in zip(hot, parts, strict=True)]
    more = len(told) - _NAMED
    told = [*told[:_NAMED], *([f"and {more:,} more that are told above"] if more > 0 else [])]
    if len(hot) == len(found.hottest) and found.distinct != len(hot):
        told.append("and maybe keys that are not told (--top)")
    of = (f"{allowed:.2%}, the limit" if found.max_share is not None
          else f"{allowed:.2%}, an even share of {most:,} partitions")  # fmt: skip
    first = shown(hot[0].key)
    return [
        f"To get below that, split (salt) each key that has more than {of}: {', '.join(told)} "
        f"({first}-0 to {first}-{parts[0] - 1}, in turn). Where the parts go is a hash's choice, "
        "so take some more; a key's records then have no one order, and whoever reads them must "
        "put the parts together."
    ]
