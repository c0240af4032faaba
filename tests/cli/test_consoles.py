"""What goes to a terminal besides words."""

from __future__ import annotations

import json
import unicodedata

import pytest

from partage.cli.console import json_bytes, stderr_console, stdout_console, styled_name
from partage.cli.progress import show_progress


@pytest.mark.parametrize("where", [stdout_console, stderr_console])
def test_no_color_means_nothing_but_words(where, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR neither colours nor dim and bold are sent; without it they are."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for value, plain in (("1", True), ("", False)):
        monkeypatch.setenv("NO_COLOR", value)
        console = where()
        with console.capture() as written:
            console.print(styled_name("words", "dim"))
        assert ("\x1b[" not in written.get()) == plain
        assert "words" in written.get()


def test_each_stage_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody watches, each stage of a long command is a line on stderr, by its name."""
    with show_progress({"count": "counting keys"}) as moved:
        for done in range(3):
            moved("count", done, 3)
        moved("other", 1, 1)
    with show_progress({"count": "counting keys"}, quiet=True) as moved:
        moved("count", 1, 3)
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()) == ("", ["counting keys ...", "other ..."])


def test_json_has_no_character_that_a_terminal_obeys() -> None:
    """C1 controls, bidirectional marks and half surrogate pairs are escaped; letters are not."""
    every = "".join(map(chr, range(0x11_0000)))
    raw = json_bytes({"name": every})
    assert json.loads(raw)["name"] == json.loads(json.dumps(every))
    kinds = {c: unicodedata.category(c) for c in raw.decode()}
    assert {c for c, kind in kinds.items() if kind in {"Cc", "Zl", "Zp", "Cs"}} == set()
    assert not any(unicodedata.bidirectional(c) in {"LRE", "RLO", "LRI", "PDI"} for c in kinds)
    assert "é" in kinds
    assert b'"caf\xc3\xa9"' in json_bytes("café", indent=1)
