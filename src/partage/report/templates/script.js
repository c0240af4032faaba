// The page is complete without this; it adds sorting, a filter and a download.
(() => {
  "use strict";
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
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.dataset.nosort !== undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.append(button);
    });
  }

  for (const one of document.querySelectorAll("[data-js]")) one.hidden = false;

  const box = document.getElementById("filter");
  const told = document.getElementById("filtered");
  const targets = [...document.querySelectorAll("[data-group]")];
  const filter = () => {
    const wanted = box.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const one of targets) {
      const text = one.dataset.group.toLowerCase();
      one.hidden = !wanted.every((word) => text.includes(word));
      if (!one.hidden && one.tagName === "TR") shown += 1;
    }
    told.textContent = wanted.length ? `${shown} groups match` : "";
  };
  if (box) box.addEventListener("input", filter);

  const all = document.getElementById("unfold");
  if (all) {
    all.addEventListener("click", () => {
      const groups = [...document.querySelectorAll("details.group:not([hidden])")];
      const open = !groups.every((one) => one.open);
      for (const one of groups) one.open = open;
      all.textContent = open ? "Fold all groups" : "Unfold all groups";
    });
  }
  const follow = () => {
    const aim = location.hash && document.getElementById(location.hash.slice(1));
    if (aim && aim.tagName === "DETAILS") { aim.open = true; aim.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
  });

  const save = document.getElementById("save");
  if (save) {
    save.addEventListener("click", () => {
      const text = document.getElementById("figures").textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "partage-figures.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
