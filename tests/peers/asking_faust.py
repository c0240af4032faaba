"""The assignor of the published faust-streaming as an oracle: a process in its own environment."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jvm import skip

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = "faust-streaming-0.15.3"
_SOMETHING_IS_MISSING = 3


@functools.cache
def faust_python() -> str:
    """The interpreter that has faust-streaming 0.15.3 (and ours, from the source); else a skip."""
    done = subprocess.run(
        [ROOT / "tools" / "clients.sh", ENVIRONMENT], capture_output=True, text=True, check=False
    )
    said = done.stderr.strip()
    if done.returncode == _SOMETHING_IS_MISSING:
        skip(said.splitlines()[-1])
    assert done.returncode == 0, f"tools/clients.sh failed:\n{said}"
    return str(ROOT / ".tools" / "clients" / ENVIRONMENT / "bin" / "python")


class FaustOracle:
    """A group's problem in, what its leader sends out; see `faust_oracle.py`."""

    def __init__(self, *more: str, hash_seed: str = "random") -> None:
        self._process = subprocess.Popen(
            [faust_python(), Path(__file__).parent / "faust_oracle.py", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    def ask(self, problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answer to each; asked together, since each turn of waiting costs more than they do."""
        text = "".join(json.dumps(one) + "\n" for one in problems)
        writing = threading.Thread(target=self._write, args=(text,))
        writing.start()
        answers = [json.loads(self._process.stdout.readline()) for _ in problems]
        writing.join()
        return answers

    def _write(self, text: str) -> None:
        self._process.stdin.write(text)
        self._process.stdin.flush()
