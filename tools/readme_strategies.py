"""Write the table of strategies from the registry; with --check only compare.

The table lies between two comments in each of `FILES`; a test runs the check.
"""

from __future__ import annotations

import sys
from pathlib import Path

from partage.groups import registry

ROOT = Path(__file__).parents[1]
FILES = ("docs/strategies.md",)
BEGIN, END = "<!-- strategies -->\n", "<!-- /strategies -->\n"


def table() -> str:
    """The table in Markdown."""
    lines = ["| name | what it does | exact to |", "|---|---|---|"]
    for row in registry.describe():
        if not row.source.startswith("partage."):
            continue  # a user's plug-in
        name, _, release = (row.exact_to or "").partition(" ")
        package, _, short = name.rpartition(".")
        where = " (coordinator)" if package.startswith("org.apache.kafka.coordinator") else ""
        where = " (jar for brokers)" if package.startswith("io.partage") else where
        exact = f"`{short}` {release}{where}" if short else row.exact_to or "no class of 4.3.1"
        lines.append(f"| `{row.name}` | {row.summary} | {exact} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, file: str) -> str:
    """A file's text with the table as the registry has it.

    Raises:
        SystemExit: the comments are not there, once each and in order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or text.count(BEGIN) + text.count(END) > 2:
        raise SystemExit(f"{file}: needs the lines {BEGIN.strip()} and {END.strip()}, once each")
    return f"{before}{BEGIN}{table()}{END}{after}"


def main() -> int:
    """Exit code 1 if --check was asked for, and a file is not as the registry says."""
    stale = 0
    for file in FILES:
        path = ROOT / file
        text = path.read_text("utf-8")
        made = with_table(text, file)
        if "--check" not in sys.argv:
            path.write_text(made, "utf-8")
        elif made != text:
            stale = 1
            print(f"{file}: the table of strategies is not the registry's; run {__file__}")
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
