"""What goes to a terminal besides words."""

from __future__ import annotations

import pytest

from partage.cli.consoles import err, name, out
from partage.cli.working import working


@pytest.mark.parametrize("where", [out, err])
def test_no_color_means_nothing_but_words(where, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR neither colours nor dim and bold are sent; without it they are."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for value, plain in (("1", True), ("", False)):
        monkeypatch.setenv("NO_COLOR", value)
        console = where()
        with console.capture() as written:
            console.print(name("words", "dim"))
        assert ("\x1b[" not in written.get()) == plain
        assert "words" in written.get()


def test_stages_are_told_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody watches, each stage of a long command is a line on stderr, by its name."""
    with working({"count": "counting keys"}) as moved:
        for done in range(3):
            moved("count", done, 3)
        moved("other", 1, 1)
    with working({"count": "counting keys"}, quiet=True) as moved:
        moved("count", 1, 3)
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()) == ("", ["counting keys ...", "other ..."])
