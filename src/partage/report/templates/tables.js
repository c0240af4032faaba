// The head of the page is complete without this; it adds sorting, a filter, copying, a download.
"use strict";
const partage = {};
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
    const rows = [...body.rows].map((row, i) => [value(row.cells[column]), i, row]);
    rows.sort((a, b) => (up ? order(a[0], b[0]) : order(b[0], a[0])) || a[1] - b[1]);
    body.append(...rows.map((row) => row[2]));
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
  const told = document.getElementById("filtered");
  const targets = [...document.querySelectorAll("[data-group]")]
    .map((row) => [row, row.dataset.group.toLowerCase()]);
  const filter = () => {
    const wanted = box.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of targets) {
      row.hidden = !wanted.every((word) => text.includes(word));
      if (!row.hidden && row.closest("#group-table")) shown += 1;
    }
    told.textContent = wanted.length ? `${shown} ${shown === 1 ? "group matches" : "groups match"}` : "";
  };
  if (box) box.addEventListener("input", filter);

  // Without https there is no navigator.clipboard: then the lines are selected and copied.
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
    save.addEventListener("click", () => {
      const text = document.getElementById("figures").textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "partage-report.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
