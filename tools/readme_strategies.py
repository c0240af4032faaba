"""Write the README's table of strategies from the registry; with --check only compare.

The table lies between two comments in README.md; a test runs the check.
"""

from __future__ import annotations

import sys
from pathlib import Path

from partage.groups import registry

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- strategies -->\n", "<!-- /strategies -->\n"


def table() -> str:
    """The table in Markdown."""
    lines = ["| name | what it does | exact to |", "|---|---|---|"]
    for row in registry.describe():
        if not row.source.startswith("partage."):
            continue  # somebody's plug-in
        name, _, release = (row.exact_to or "").rpartition(" ")
        package, _, short = name.rpartition(".")
        where = " (coordinator)" if ".coordinator." in package else ""
        exact = f"`{short}` {release}{where}" if short else row.exact_to or "no class of 4.3.1"
        lines.append(f"| `{row.name}` | {row.summary} | {exact} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Exit code 1 if the README is not as the registry says."""
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{before}{BEGIN}{table()}{END}{after}"
    if "--check" in sys.argv:
        if made != text:
            print("README.md: the table of strategies is not what the registry says; run", __file__)
        return int(made != text)
    README.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
