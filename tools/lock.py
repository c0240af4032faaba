"""Writes uv.lock anew: `make lock`, with `ARGS=--upgrade` for newer versions.

uv writes into its lock file from which host each file came. Ours names none: versions and
hashes decide what is installed, and the index is the one that the person's own pip or uv is
set up for. `make` therefore installs with `uv export --frozen` and `--require-hashes`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "uv.lock"
# uv's own form for an index that is a folder of files; it needs names, not addresses.
FOLDER = ".wheels"


def without_hosts(text: str) -> str:
    """The lock file's text with folders in place of addresses."""
    text = re.sub(r'registry = "https?://[^"]*"', f'registry = "{FOLDER}"', text)
    text = re.sub(r'url = "https?://[^"]*/([^"/]+)"', r'path = "\1"', text)
    return re.sub(r', upload-time = "[^"]*"', "", text)


def main() -> None:
    """Lock with uv, then take the hosts out."""
    uv = ROOT / ".venv" / "bin" / "uv"
    subprocess.run([uv, "lock", *sys.argv[1:]], cwd=ROOT, check=True)
    text = without_hosts(LOCK.read_text())
    if "://" in text:
        sys.exit("uv.lock still names a host: look for :// in it")
    LOCK.write_text(text)


if __name__ == "__main__":
    main()
