"""Updater of uv.lock: `make lock`, with `ARGS=--upgrade` for newer versions.

uv writes the host of each file into its lock file. Ours names none: versions and hashes decide
what is installed, and pip's or uv's own configuration chooses the index. `make` therefore
installs with `uv export --frozen` and `--require-hashes`.
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
    """Return the lock file's text with folders in place of addresses."""
    text = re.sub(r'registry = "https?://[^"]*"', f'registry = "{FOLDER}"', text)
    text = re.sub(r'url = "https?://[^"]*/([^"/]+)"', r'path = "\1"', text)
    # Some indexes report size and upload time, others do not: the file is the same for all.
    return re.sub(r', (upload-time = "[^"]*"|size = [0-9]+)', "", text)


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
