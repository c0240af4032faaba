"""The HTML that values show in a notebook, as tags and text."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"rect"}


class _Checker(HTMLParser):
    """Collects text and tags, and checks that each tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if "style" not in self.open:
            self.text.append(data)


def parsed(html: str) -> _Checker:
    """Return the tags and the text of well-formed HTML."""
    found = _Checker()
    found.feed(html)
    assert not found.open
    return found
