"""The notebook of examples/: executed by nbclient, and shown with JupyterLab's styles in Chromium.

The environment nbconvert-7 (tools/clients.sh) has Jupyter. Its kernel imports Partage and the
libraries of the environment that runs the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
from tests.support.browser import chromium
from tests.support.processes import ROOT, client_python

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install playwright"
)

pytestmark = [pytest.mark.browser, pytest.mark.soak]

NOTEBOOK = ROOT / "examples" / "decision.ipynb"
#: Cells whose value has HTML without a picture. The members of this group own nothing yet.
TABLES = {"advice", "policies", "members"}
#: Cells whose value has pictures (SVG) in its table.
PICTURES = {"replay", "group", "problem", "plan", "rounds", "cluster"}
_EXECUTE = """
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

notebook, folder = nbformat.read(sys.argv[1], 4), Path(sys.argv[2])
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, folder / "executed.ipynb")
for theme in ("light", "dark"):
    page, _ = HTMLExporter(theme=theme).from_notebook_node(notebook)
    (folder / f"{theme}.html").write_text(page, "utf-8")
"""
#: Measures the tables of Partage on a page. Contrast is that of WCAG 2, of a text with the nearest
#: background that is not transparent. `pictures` maps a cell to the number of its drawn pictures.
_MEASURE = """() => {
  const numbers = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const background = element => {
    for (let one = element; one; one = one.parentElement) {
      const found = numbers(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const texts = [...document.querySelectorAll('.partage :is(td, th, div)')]
    .filter(e => e.textContent.trim());
  const tables = [...document.querySelectorAll('.partage')];
  const cell = e => e.closest('[id^="cell-id="]').id.replace('cell-id=', '');
  const drawn = e => [...e.querySelectorAll('svg')]
    .filter(one => one.getBoundingClientRect().height > 8 && one.querySelector('rect')).length;
  return {
    texts: texts.length,
    contrast: Math.min(...texts.map(e => ratio(luminance(numbers(getComputedStyle(e).color)),
                                               luminance(background(e))))),
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    pictures: Object.fromEntries(tables.map(e => [cell(e), drawn(e)])),
  };
}"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> Path:
    """Execute the notebook and return the folder with its outputs and a page of each theme."""
    folder = tmp_path_factory.mktemp("notebook")
    libraries = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [client_python("nbconvert-7"), "-c", _EXECUTE, str(NOTEBOOK), str(folder)],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": libraries, "IPYTHONDIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_each_cell_runs_and_shows_a_table(executed) -> None:
    """No cell has an error or a warning; values of Partage have HTML and the same as text."""
    cells = json.loads((executed / "executed.ipynb").read_text())["cells"]
    found = {}
    for cell in cells:
        for output in cell.get("outputs", ()):
            assert output["output_type"] != "error", output
            assert output.get("name") != "stderr", output
            found[cell["id"]] = output.get("data", {})
    assert {name for name, data in found.items() if "text/html" in data} == TABLES | PICTURES
    assert all("text/plain" in found[name] for name in TABLES | PICTURES)
    assert "settings" in found


@pytest.mark.parametrize("size", [(1400, 1000), (400, 860)], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tables_can_be_read_in_both_themes(executed, size, theme) -> None:
    """Text has a contrast of 4.5 (WCAG AA), pictures are drawn, and the page fits the window.

    The colour scheme of the system is the opposite one, because JupyterLab's theme decides.
    """
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        context = running.new_context(
            viewport={"width": size[0], "height": size[1]}, offline=True,
            color_scheme="light" if theme == "dark" else "dark",
        )  # fmt: skip
        page = context.new_page()
        page.goto((executed / f"{theme}.html").as_uri(), wait_until="domcontentloaded")
        found = page.evaluate(_MEASURE)
        page.screenshot(path=executed / f"{theme}-{size[0]}.png", full_page=True)
        running.close()
    assert found["pictures"].keys() == TABLES | PICTURES
    assert {cell for cell, drawn in found["pictures"].items() if drawn} == PICTURES
    assert found["texts"] > 100
    assert found["contrast"] >= 4.5
    assert found["overflow"] <= 0
