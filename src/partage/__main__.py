"""``python -m partage`` is ``partage``."""

from __future__ import annotations

from partage.cli import main

if __name__ == "__main__":
    main()
