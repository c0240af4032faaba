"""Entry point of ``python -m partage``, which runs the command line `partage`."""

from __future__ import annotations

from partage.cli import main

if __name__ == "__main__":
    main()
