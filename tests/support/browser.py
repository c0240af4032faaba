"""Chromium for the tests that open the report; skipped by name where there is none."""

from __future__ import annotations

import shutil

from tests.support.jvm import skip

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> str:
    """The path of an installed Chromium: for playwright's ``executable_path`` or ``--headless``."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        skip("no Chromium: install one (for example: apt-get install chromium)")
    return found
