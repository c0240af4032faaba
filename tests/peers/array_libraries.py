"""Keys and tables of a run in real array libraries: polars, arro3 and nanoarrow.

Runs in the environment polars-1 of tools/clients.sh. Prints JSON: for each column of keys, the
type, name and values of what `partition_for` returns; and the columns of `to_polars`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

KEYS = ["foobar", None, "21", "user-1"]


def columns() -> dict[str, Any]:
    """Return `KEYS` as a column of each library, type and number of chunks."""
    import nanoarrow
    import polars as pl
    from arro3.core import Array, ChunkedArray
    from pyarrow import array, chunked_array

    whole, chunks = array(KEYS), chunked_array([KEYS[:1], KEYS[1:]])
    series = pl.Series("key", KEYS)
    return {
        "polars text": series,
        "polars bytes": series.cast(pl.Binary),
        "polars categories": series.cast(pl.Categorical),
        "polars enumeration": series.cast(pl.Enum(["21", "foobar", "user-1"])),
        "polars slice": pl.Series("key", ["x", *KEYS, "y"])[1:-1],
        "polars chunks": pl.concat([series[:1], series[1:]], rechunk=False),
        "arro3 array": Array.from_arrow(whole),
        "arro3 chunks": ChunkedArray.from_arrow(chunks),
        "nanoarrow array": nanoarrow.Array(whole),
        "nanoarrow chunks": nanoarrow.Array(chunks),
    }


def main(folder: str) -> None:
    """Print the results; the run is that of a folder of `partage replay`."""
    import partage as pg

    found: dict[str, Any] = {}
    for name, keys in columns().items():
        placed = pg.partition_for(keys, partitions=10)
        values = placed.to_pylist() if hasattr(placed, "to_pylist") else list(placed)
        kind = f"{type(placed).__module__.partition('.')[0]}.{type(placed).__name__}"
        found[name] = {"type": kind, "name": getattr(placed, "name", None), "values": values}
    run = pg.open_run(folder)
    frames = {
        name: {column: str(kind) for column, kind in table.to_polars().schema.items()}
        for name, table in (("groups", run.groups), ("advice", run.advice))
    }
    first = run.rebalances.to_polars()["time"][0]
    print(json.dumps({"keys": found, "frames": frames, "first_time": first.isoformat()}))


if __name__ == "__main__":
    main(sys.argv[1])
