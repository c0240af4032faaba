"""What both kinds of recorded Streams lives share: the application's parts, and its file."""

from __future__ import annotations

import argparse
import json
import lzma
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def subtopologies(name: str) -> list[dict[str, Any]]:
    """The parts of `io.partage.live.StreamsInstance`, as a description of an application has them."""
    return [
        {"sources": {"lines": 4}, "stores": {"words": {}}},
        {"sources": {"ticks": 2}, "sinks": ["out"]},
        {"sources": {"moves": 2}, "sinks": [f"{name}-places-repartition"]},
        {"sources": {f"{name}-places-repartition": None}, "stores": {"places": {}}},
    ]


def write(live: Callable[[int], dict[str, Any]], about: str | None) -> None:
    """Live a life as the command line asks, and write its recording."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    asked = parser.parse_args()
    text = json.dumps(live(asked.seed), separators=(",", ":"))
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{asked.path}: seed {asked.seed}, {asked.path.stat().st_size} bytes")
