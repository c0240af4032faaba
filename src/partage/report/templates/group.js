// Details of one group: timeline, advice, policies, worst rebalances, storms.
(() => {
  const place = document.getElementById("group");
  if (!place) return;
  const CAUSES = JSON.parse(document.getElementById("cause-words").textContent);
  const TERMS = JSON.parse(document.getElementById("terms").textContent);
  const METRICS = JSON.parse(document.getElementById("metrics").textContent);
  const { records } = partage;

  // Children are text or elements, never markup: names come from the log.
  const h = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
    }
    made.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
    return made;
  };
  const shown = (v) => (v === null || v === undefined ? "?" : v.toLocaleString("en"));
  const cause = (kind) => (CAUSES[kind] ? CAUSES[kind].label : kind);
  const term = (key, text) => h("a", { class: "term", href: `#w-${key}`, "data-tip": TERMS[key].meaning }, text || TERMS[key].term);
  const cell = (text, value) => h("td", value === undefined ? {} : { class: "n", "data-v": value ?? "" }, text);
  // A heading: {text, number: sorted as numbers, help: definition}.
  const text = (label, term) => ({ text: label, help: term && TERMS[term].meaning });
  const number = (label, term) => ({ text: label, number: true, help: term && TERMS[term].meaning });
  const heads = (headings) => h("thead", {}, h("tr", {}, headings.map((one) => h("th", {
    scope: "col", class: one.number ? "n" : null, "data-tip": one.help,
  }, one.text))));
  const table = (label, headings, rows) => {
    const made = h("table", { class: "sortable" }, heads(headings), h("tbody", {}, rows));
    partage.sortable(made);
    return h("div", { class: "card scroll tall", tabindex: "0", role: "region", "aria-label": label }, made);
  };
  // A policy's name may break after its slash and before its plus, not inside a word.
  const broken = (name) => name.split(/(?<=[/:])|(?=\+)/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));

  const advice = (data) => data.advice.map((one) => h("article", { class: "card change" },
    h("h4", {}, one.title),
    h("p", { class: "gain" }, "Expected gain: ", h("b", {}, one.gain), one.confidence ? `, ${one.confidence} confidence` : ""),
    h("p", {}, one.why),
    one.lines.length ? h("figure", { class: "lines" },
      h("figcaption", {}, h("span", {}, { consumer: "consumer properties", broker: "broker properties", group: "group configuration" }[one.where] || one.where),
        h("button", { type: "button", "data-copy": "" }, "Copy")),
      h("pre", { tabindex: "0" }, h("code", {}, one.lines.join("\n")))) : null,
    h("dl", { class: "how" }, [["Now", one.now.join("; ")], ["Risk", one.risk], ["Rollout", one.rollout], ["Verify", one.verify]]
      .filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]).flat())));

  // The columns come from the metrics table.
  const policies = (columns, label) => table(label, [
    text("Policy", "policy"), ...METRICS.map((m) => ({ text: m.label, number: true, help: m.help })),
  ], records(columns).map((p) => h("tr", { class: p.recorded ? "recorded" : p.comparable ? null : "off" },
    h("th", { scope: "row" }, broken(p.label)),
    p.note ? h("td", { colspan: METRICS.length, class: "note" }, p.note)
      : METRICS.map((m) => cell(p[m.name], p[`${m.name}_sort`])))));

  const partsOf = (had, gained, lost, most) => {
    const wide = (n) => `width:${(100 * n) / Math.max(most, 1)}%`;
    return h("span", { class: "track", "aria-hidden": "true" },
      h("i", { class: "solid", style: wide(had - lost) }), h("i", { class: "hatch", style: wide(lost + gained) }));
  };
  const worst = (data) => data.worst.map((one) => {
    const members = records(one.members);
    const cheapest = records(one.cheapest);
    const owners = records(data.owners);
    const most = Math.max(1, ...members.map((m) => m.before + m.gained));
    return h("article", { class: "card change" },
      h("h4", {}, `Generation ${one.generation}, ${partage.clock(one.time_ms, 0)} UTC`),
      h("p", {}, one.what),
      members.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Members before and after generation ${one.generation}` },
        h("table", {}, heads([text("Member"), number("before"), number("after"), number("lost"), number("gained"), text("")]),
          h("tbody", {}, members.map((m) => h("tr", {},
            h("th", { scope: "row" }, h("b", {}, partage.short(m.owner)), " ", h("bdi", {}, owners[m.owner].label)),
            cell(shown(m.before), m.before), cell(shown(m.after), m.after),
            cell(m.lost ? `−${m.lost}` : "", m.lost), cell(m.gained ? `+${m.gained}` : "", m.gained),
            h("td", { class: "barcell" }, partsOf(m.before, m.gained, m.lost, most))))))) : null,
      one.more ? h("p", { class: "soft" }, `and ${one.more} more members`) : null,
      cheapest.length ? h("p", { class: "soft" }, "Least downtime here: ", cheapest.map((p) => `${p.policy} ${p.downtime}`).join("; "), ".") : null);
  });

  const storms = (data) => {
    const found = records(data.storms);
    if (!data.storms_known) return h("p", { class: "soft" }, "Unknown: an older Partage wrote the run, or it has no storm.");
    if (!found.length) return h("p", {}, "None.");
    return table("Rebalance storms", [number("Storm"), text("From"), text("To"), number("Rebalances"), number("Downtime", "stopped"), text("Trigger", "cause"), text("Causes")],
      found.map((s) => h("tr", {}, cell(String(s.number + 1), s.number), cell(partage.clock(s.first, 0)), cell(partage.clock(s.last, 0)),
        cell(shown(s.rebalances), s.rebalances), cell(s.downtime, s.downtime_sort), cell(`${cause(s.trigger)}: ${s.what}`),
        cell(Object.entries(s.causes).map(([kind, times]) => `${times} ${cause(kind)}`).join(", ")))));
  };

  const steps = (data) => table("Rebalances", [
    number("Generation"), text("Time, UTC"), text("Cause", "cause"), text("Change"), number("Members"),
    number("Moved", "moved"), number("Downtime", "stopped"), number("Storm", "storm"), text("Note"),
  ], records(data.steps).map((s) => h("tr", {},
    cell(s.incarnation ? `${s.generation} (incarnation ${s.incarnation + 1})` : String(s.generation), s.generation), cell(partage.clock(s.time_ms, 0)),
    h("td", {}, h("b", { class: "letter" }, partage.letter(s.cause)), ` ${cause(s.cause)}`, s.recorded ? "" : h("small", {}, " inferred")),
    cell(s.what + (s.missing_before ? ` (${s.missing_before} generations missing before)` : "")), cell(shown(s.members), s.members), cell(shown(s.moved), s.moved),
    cell(s.downtime, s.downtime_sort), cell(s.storm === null ? "" : String(s.storm + 1), s.storm ?? ""), cell(s.note))));

  const legend = (data) => {
    const kinds = [...new Set(records(data.steps).map((s) => s.cause))];
    // The client id and host are what a person knows; the member id is unfolded.
    const owners = records(data.owners).map(({ name, label }, i) => h("li", {}, label === name
      ? [h("b", {}, partage.short(i)), " ", h("bdi", {}, name)]
      : h("details", {}, h("summary", {}, h("b", {}, partage.short(i)), " ", h("bdi", {}, label)), h("bdi", {}, name))));
    return [
      h("p", { class: "key soft" }, kinds.map((k) => h("span", {}, h("b", { class: "letter" }, partage.letter(k)), ` ${cause(k)}`)),
        h("span", {}, "number: several rebalances"), data.exact ? null : h("span", {}, "+ and paler: other members own parts of it"),
        records(data.gaps).length ? h("span", {}, "hatched: generations missing from the log, owners unknown") : null),
      h("details", { class: "more", open: owners.length <= 8 ? "" : null }, h("summary", {}, `${owners.length} members`),
        h("ul", { class: "members" }, owners)),
    ];
  };

  const part = (title, ...content) => [h("h3", {}, title), ...content.flat()];
  const show = (anchor, focus) => {
    const source = document.getElementById(`d-${anchor}`);
    if (!source) return false;
    const data = JSON.parse(source.textContent);
    const bad = records(data.bad);
    const chart = h("div", { class: "chart", role: "img", "aria-label": `Timeline of partition owners in ${data.name}; the tables below have the same as text` });
    const drawn = records(data.rows).length > 0;
    const boxes = data.exact ? "Each box is one partition owned by one member." : `${data.partitions.toLocaleString("en")} partitions in bins: each box shows the member that owned most of it.`;
    place.replaceChildren(h("article", { class: "card group", id: anchor },
      h("h2", {}, h("bdi", {}, data.name)),
      h("p", { class: "soft" }, term("stopped"), `: ${data.downtime}${data.share ? `, ${data.share} of its partition-time` : ""}.`),
      drawn ? part("Owners over time", h("p", { class: "soft" }, `${boxes} Letters on top are rebalances. Drag the slider to zoom.`), chart, legend(data)) : null,
      data.advice.length ? part("What to change here", h("div", { class: "cards" }, advice(data))) : null,
      part("Policies compared", policies(data.policies, "Policies of this group"),
        records(data.per_rebalance).length ? h("details", { class: "more" }, h("summary", {}, "The same, each rebalance simulated by itself"), policies(data.per_rebalance, "Each rebalance simulated by itself")) : null),
      data.worst.length ? part("Worst rebalances, before and after", h("div", { class: "cards" }, worst(data))) : null,
      part("Rebalance storms", storms(data)),
      part("All rebalances", h("details", { class: "more" }, h("summary", {}, `${records(data.steps).length} rebalances`), steps(data))),
      bad.length ? part("Damaged records of this group", table("Damaged records", [number("Partition"), number("Offset"), text("Part"), text("Defect")],
        bad.map((b) => h("tr", {}, cell(shown(b.partition), b.partition), cell(shown(b.offset), b.offset), cell(b.part), cell(b.why))))) : null));
    for (const row of document.querySelectorAll("#group-table tr[aria-current]")) row.removeAttribute("aria-current");
    const link = document.querySelector(`#group-table a[href="#${anchor}"]`);
    if (link) link.closest("tr").setAttribute("aria-current", "true");
    if (drawn) partage.chart(chart, data);
    if (focus) {
      place.scrollIntoView();
      place.focus({ preventScroll: true });
    }
    return true;
  };
  const follow = () => show(location.hash.slice(1), true);
  addEventListener("hashchange", follow);
  // A second click on the same link does not change the address, but must lead there too.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#g"]');
    if (link && link.hash === location.hash) follow();
  });
  if (!/^#g\d+$/.test(location.hash) || !follow()) {
    const first = document.querySelector('#group-table a[href^="#g"]');
    if (first) show(first.hash.slice(1), false);
  }
})();
