// One group at a time, from its own data: timeline, advice, policies, worst rebalances, storms.
(() => {
  const place = document.getElementById("group");
  if (!place) return;
  const CAUSES = JSON.parse(document.getElementById("cause-words").textContent);
  const MEANINGS = JSON.parse(document.getElementById("meanings").textContent);

  // Children are text or elements, never markup: names in them are foreign.
  const h = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
    }
    made.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
    return made;
  };
  const number = (v) => (v === null || v === undefined ? "?" : v.toLocaleString("en"));
  const seconds = (low, high) => {
    if (high === null || high === undefined) return "?";
    const [factor, unit] = high < 120 ? [1, "s"] : high < 7200 ? [60, "min"] : [3600, "h"];
    const of = (v) => String(Number((v / factor).toPrecision(3)));
    if (high === 0) return "0";
    return `${of(low) === of(high) ? of(high) : `${of(low)}–${of(high)}`}\u00a0p·${unit}`;
  };
  const cause = (kind) => (CAUSES[kind] ? CAUSES[kind][0] : kind);
  const term = (key, text) => h("a", { class: "term", href: `#w-${key}`, "data-tip": MEANINGS[key][1] }, text || MEANINGS[key][0]);
  const cell = (text, value) => h("td", value === undefined ? {} : { class: "n", "data-v": value ?? "" }, text);
  const heads = (names) => h("thead", {}, h("tr", {}, names.map(([text, n, key]) => h("th", {
    scope: "col", class: n ? "n" : null, "data-tip": key ? MEANINGS[key][1] : null,
  }, text))));
  const table = (label, names, rows, sorts = true) => {
    const made = h("table", sorts ? { class: "sortable" } : {}, heads(names), h("tbody", {}, rows));
    if (sorts) partage.sortable(made);
    return h("div", { class: "card scroll tall", tabindex: "0", role: "region", "aria-label": label }, made);
  };
  // A policy's name may break behind its slash and plus, never inside a word.
  const broken = (name) => name.split(/(?<=[/:])|(?=\+)/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));

  const advice = (data) => data.advice.map((one) => h("article", { class: "card change" },
    h("h4", {}, one.title),
    one.saves ? h("p", { class: "gain" }, term("saved"), " ", h("b", {}, one.saves)) : null,
    h("p", {}, one.why),
    one.lines.length ? h("figure", { class: "lines" },
      h("figcaption", {}, h("span", {}, { consumer: "consumer properties", broker: "broker properties", group: "group configuration" }[one.where] || one.where),
        h("button", { type: "button", "data-copy": "" }, "Copy")),
      h("pre", { tabindex: "0" }, h("code", {}, one.lines.join("\n")))) : null));

  const policies = (rows, label) => table(label, [
    ["Policy", false, "policy"], ["Time lost", true, "lost"], ["would have saved", true, "saved"],
    ["Rebal\u00adances", true, "rebalance"], ["Moved", true, "moved"], ["Avoid\u00adable", true, "avoidable"],
    ["Most even", true, "even"], ["Idle", true, "idle"], ["Read twice", true, "reread"],
    ["Rack mis\u00admatches", true, "racks"], ["Load spread, records/s", true],
  ], rows.map((p) => h("tr", { class: p[0] === "recorded" ? "recorded" : p[14] ? null : "off" },
    h("th", { scope: "row" }, broken(p[0] === "recorded" ? "as recorded" : p[0])),
    p[1] ? h("td", { colspan: "10", class: "note" }, p[1]) : [
      cell(seconds(p[3], p[4]) + (p[14] ? "" : " *"), p[4]), cell(p[0] === "recorded" ? "" : p[5] ?? "?", p[6]),
      cell(number(p[2]), p[2]), cell(number(p[7]), p[7]), cell(number(p[8]), p[8]), cell(p[9], parseFloat(p[9])),
      cell(number(p[10]), p[10]), cell(p[11] ?? "?", parseFloat(p[11])), cell(number(p[12]), p[12]), cell(number(p[13]), p[13]),
    ])));

  const partsOf = (had, gained, lost, most) => {
    const wide = (n) => `width:${(100 * n) / Math.max(most, 1)}%`;
    return h("span", { class: "track", "aria-hidden": "true" },
      h("i", { class: "solid", style: wide(had - lost) }), h("i", { class: "hatch", style: wide(lost + gained) }));
  };
  const worst = (data) => data.worst.map((one) => {
    const step = data.steps.find((s) => s[0] === one.generation && s[1] === one.life);
    const most = Math.max(1, ...one.members.map((m) => m[1] + m[3]));
    const others = one.policies.filter((p) => p[0] !== "recorded" && p[1] === "done").slice(0, 4);
    return h("article", { class: "card change" },
      h("h4", {}, `Generation ${one.generation}, ${partage.clock(step[2], 0)} UTC`),
      h("p", {}, `${step[5] || cause(step[3])}. Stopped ${seconds(step[8], step[9])}; ${number(step[7])} moved.`),
      one.members.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Members before and after generation ${one.generation}` }, h("table", {}, heads([["Member"], ["before", true], ["after", true], ["lost", true], ["gained", true], [""]]),
        h("tbody", {}, one.members.map(([who, before, after, lost, gained]) => h("tr", {},
          h("th", { scope: "row" }, h("b", {}, partage.short(who)), " ", h("bdi", {}, data.owners[who])),
          cell(number(before), before), cell(number(after), after), cell(lost ? `−${lost}` : "", lost), cell(gained ? `+${gained}` : "", gained),
          h("td", { class: "barcell" }, partsOf(before, gained, lost, most))))))) : null,
      one.more ? h("p", { class: "soft" }, `and ${one.more} more members`) : null,
      others.length ? h("p", { class: "soft" }, "Cheapest here: ", others.map((p) => `${p[0]} ${p[4] === null ? `${number(p[2])} moved` : seconds(p[3], p[4])}`).join("; "), ".") : null);
  });

  const storms = (data) => {
    if (!data.storms_known) return h("p", { class: "soft" }, "Not known: the run is of an older Partage, or has no rebalance in a storm.");
    if (!data.storms.length) return h("p", {}, "None.");
    return table("Storms", [["Storm", true], ["From"], ["To"], ["Rebalances", true], ["Time lost", true, "lost"], ["Trigger", false, "cause"], ["Made of"]],
      data.storms.map((s) => h("tr", {}, cell(String(s.number + 1), s.number), cell(partage.clock(s.first, 0)), cell(partage.clock(s.last, 0)),
        cell(number(s.rebalances), s.rebalances), cell(seconds(s.low, s.high), s.high), cell(`${cause(s.trigger)}: ${s.words}`),
        cell(s.kinds.map(([k, n]) => `${n} ${cause(k)}`).join(", ")))));
  };

  const steps = (data) => table("Rebalances", [
    ["Generation", true], ["Time, UTC"], ["Cause", false, "cause"], ["What happened"], ["Members", true],
    ["Moved", true, "moved"], ["Time lost", true, "lost"], ["Storm", true, "storm"], ["Note"],
  ], data.steps.map((s) => h("tr", {},
    cell(s[1] ? `${s[0]} (life ${s[1] + 1})` : String(s[0]), s[0]), cell(partage.clock(s[2], 0)),
    h("td", {}, h("b", { class: "letter" }, partage.letter(s[3])), ` ${cause(s[3])}`, s[4] ? "" : h("small", {}, " inferred")),
    cell(s[5] + (s[11] ? ` (${s[11]} missing before)` : "")), cell(number(s[6]), s[6]), cell(number(s[7]), s[7]),
    cell(seconds(s[8], s[9]), s[9]), cell(s[10] === null ? "" : String(s[10] + 1), s[10] ?? ""), cell(s[12]))));

  const legend = (data) => {
    const kinds = [...new Set(data.steps.map((s) => s[3]))];
    const owners = data.owners.map((name, i) => h("li", {}, h("b", {}, partage.short(i)), " ", h("bdi", {}, name)));
    return [
      h("p", { class: "key soft" }, kinds.map((k) => h("span", {}, h("b", { class: "letter" }, partage.letter(k)), ` ${cause(k)}`)),
        h("span", {}, "a number: that many rebalances"), data.exact ? null : h("span", {}, "+ and paler: others own parts of it too"),
        (data.gaps || []).length ? h("span", {}, "hatched: generations are missing from the log, and who owned what is not known") : null),
      h("details", { class: "more", open: data.owners.length <= 8 ? "" : null }, h("summary", {}, `${data.owners.length} members`),
        h("ul", { class: "members" }, owners)),
    ];
  };

  const part = (title, ...content) => [h("h3", {}, title), ...content.flat()];
  const show = (anchor, focus) => {
    const source = document.getElementById(`d-${anchor}`);
    if (!source) return false;
    const data = JSON.parse(source.textContent);
    const chart = h("div", { class: "chart", role: "img", "aria-label": `Timeline of who owned which partition in ${data.name}; the tables below have the same in words` });
    const told = data.exact ? "Each box is one partition with one member." : `${data.partitions.toLocaleString("en")} partitions and all times in bins: each box shows who owned most of it.`;
    place.replaceChildren(h("article", { class: "card group", id: anchor },
      h("h2", {}, h("bdi", {}, data.name)),
      h("p", { class: "soft" }, term("lost"), `: ${data.lost}.`),
      data.rows.length ? part("Who owned what", h("p", { class: "soft" }, `${told} Letters above are rebalances. Drag the slider below to look closer.`), chart, legend(data)) : null,
      data.advice.length ? part("What to change here", h("div", { class: "cards" }, advice(data))) : null,
      part("Policies side by side", policies(data.policies, "Policies of this group"),
        data.per_rebalance.length ? h("details", { class: "more" }, h("summary", {}, "The same from the recorded past of each rebalance"), policies(data.per_rebalance, "From the recorded past")) : null),
      data.worst.length ? part("Worst rebalances, before and after", h("div", { class: "cards" }, worst(data))) : null,
      part("Storms", storms(data)),
      part("Rebalances one by one", h("details", { class: "more" }, h("summary", {}, `${data.steps.length} rebalances`), steps(data))),
      data.bad.length ? part("Damaged records of this group", table("Damaged records", [["Partition", true], ["Offset", true], ["Part"], ["Why"]],
        data.bad.map((b) => h("tr", {}, cell(number(b[0]), b[0]), cell(number(b[1]), b[1]), cell(b[2]), cell(b[3]))))) : null));
    for (const row of document.querySelectorAll("#group-table tr[aria-current]")) row.removeAttribute("aria-current");
    const link = document.querySelector(`#group-table a[href="#${anchor}"]`);
    if (link) link.closest("tr").setAttribute("aria-current", "true");
    if (data.rows.length) partage.chart(chart, data);
    if (focus) {
      place.scrollIntoView();
      place.focus({ preventScroll: true });
    }
    return true;
  };
  const follow = () => show(location.hash.slice(1), true);
  addEventListener("hashchange", follow);
  // The same link again is no change of the address, and must lead there all the same.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#g"]');
    if (link && link.hash === location.hash) follow();
  });
  if (!/^#g\d+$/.test(location.hash) || !follow()) {
    const first = document.querySelector('#group-table a[href^="#g"]');
    if (first) show(first.hash.slice(1), false);
  }
})();
