"""Causes of rebalances against what recordings of live clusters did to their members.

    python benchmarks/bench_causes.py [FOLDER ...]

Prints the confusion matrix of each recording that is checked in, or of the folders given: rows are
the causes that the clients' own log establishes, columns what Partage finds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.recordings import Recording, names, recording  # noqa: E402
from tests.support.true_causes import Confusion  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--wrong", action="store_true", help="list the causes that differ")
    given, _ = parser.parse_known_args()
    found = {str(folder): Recording(folder) for folder in given.folders}
    for name, one in (found or {name: recording(name) for name in names(overloaded=True)}).items():
        confusion = Confusion.of(one)
        print(f"\n{name}\n" + "\n".join(confusion.lines()))
        for true in confusion.wrong if given.wrong else ():
            causes = [(c.kind, c.detail) for c in true.found.causes]
            print(
                f"  {true.group} {true.found.generation_number}: {', '.join(true.kinds)}; "
                f"found {causes}"
            )


if __name__ == "__main__":
    main()
