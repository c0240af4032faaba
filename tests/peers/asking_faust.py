"""The assignor of the published faust-streaming as an oracle: a process in its own environment."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.support.processes import ROOT, JsonLines, client_python

__all__ = ["ROOT", "FaustOracle", "faust_python"]


def faust_python() -> str:
    """The interpreter that has faust-streaming 0.15.3 (and ours, from the source); else a skip."""
    return client_python("faust-streaming-0.15.3")


class FaustOracle(JsonLines):
    """A group's problem in, what its leader sends out; see `faust_oracle.py`."""

    def __init__(self, *more: str, hash_seed: str = "random") -> None:
        super().__init__(
            [faust_python(), Path(__file__).parent / "faust_oracle.py", *more], hash_seed
        )

    def ask(self, problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answer to each; asked together, since each turn of waiting costs more than they do."""
        text = "".join(json.dumps(one) + "\n" for one in problems)
        writing = threading.Thread(target=self._write, args=(text,))
        writing.start()
        answers = [self._read() for _ in problems]
        writing.join()
        return answers
