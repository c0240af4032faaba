// Sorting, a filter, copy buttons and a download; the page is complete without them.
"use strict";
const partage = {};
// Columns with names as a list of records.
partage.records = (columns) => {
  const names = Object.keys(columns);
  if (!names.length) return [];
  return columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
};
// Large pages have their data compressed: gzip as base64. A promise of the text of a script element.
partage.textOf = async (source) => {
  if (source.type === "application/json") return source.textContent;
  const bytes = Uint8Array.from(atob(source.textContent), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
(() => {
  const value = (cell) => {
    const given = cell && cell.dataset.v;
    if (given === undefined) return cell ? cell.textContent.trim().toLowerCase() : "";
    return given === "" ? -Infinity : Number(given);
  };
  const order = (a, b) => (typeof a === "string" || typeof b === "string")
    ? String(a).localeCompare(String(b)) : a - b;
  const sort = (table, column, head) => {
    const numeric = head.classList.contains("n");
    const now = head.getAttribute("aria-sort");
    const up = now ? now === "descending" : !numeric;
    for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ key: value(row.cells[column]), place, row }));
    rows.sort((a, b) => (up ? order(a.key, b.key) : order(b.key, a.key)) || a.place - b.place);
    body.append(...rows.map((one) => one.row));
  };
  partage.sortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      if (head.dataset.tip) {
        button.dataset.tip = head.dataset.tip;
        button.className = "term";
      }
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.append(button);
    });
  };
  for (const table of document.querySelectorAll("table.sortable")) partage.sortable(table);
  for (const one of document.querySelectorAll("[data-js]")) one.hidden = false;

  const box = document.getElementById("filter");
  const matches = document.getElementById("filtered");
  const targets = [...document.querySelectorAll("[data-group]")]
    .map((row) => ({ row, text: row.dataset.group.toLowerCase() }));
  const filter = () => {
    const wanted = box.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of targets) {
      row.hidden = !wanted.every((word) => text.includes(word));
      if (!row.hidden && row.closest("#group-table")) shown += 1;
    }
    matches.textContent = wanted.length ? `${shown} ${shown === 1 ? "group matches" : "groups match"}` : "";
  };
  if (box) box.addEventListener("input", filter);

  // navigator.clipboard needs https: otherwise the lines are selected and copied.
  const copied = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await copied(button.closest("figure").querySelector("code"));
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  const save = document.getElementById("save");
  if (save) {
    save.addEventListener("click", async () => {
      const text = await partage.textOf(document.getElementById("figures"));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "partage-report.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
