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
    made.append(...children.flat(2).filter((c) => c !== null && c !== undefined && c !== ""));
    return made;
  };
  const shown = (v) => (v === null || v === undefined ? "?" : v.toLocaleString("en"));
  const cause = (kind) => (CAUSES[kind] ? CAUSES[kind].label : kind);
  const term = (key, text) => h("a", { class: "term", href: `#w-${key}`, "data-tip": TERMS[key].meaning }, text || TERMS[key].term);
  const cell = (text, value) => h("td", value === undefined ? {} : { class: "n", "data-v": value ?? "" }, text);
  // A heading: {text, number: sorted as numbers, help: definition}.
  const text = (label, term) => ({ text: label, help: term && TERMS[term].meaning });
  const figure = (label, term) => ({ text: label, number: true, help: term && TERMS[term].meaning });
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
    h("p", { class: "gain" }, "Expected gain: ", h("b", { class: one.simulated ? null : "unsure" }, one.gain), one.share ? `, ${one.share}` : "", one.confidence ? `, ${one.confidence} confidence` : ""),
    h("p", {}, one.why),
    one.blocks.map((block) => h("figure", { class: "lines" },
      h("figcaption", {}, h("span", {}, block.where),
        h("button", { type: "button", "data-copy": "" }, "Copy")),
      h("pre", { tabindex: "0" }, h("code", {}, block.lines.join("\n"))))),
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
  const named = (s) => (s.incarnation ? `${s.generation} (incarnation ${s.incarnation + 1})` : String(s.generation));
  // What each member owned before and after a rebalance; `place` is where on the page, for screen readers.
  const compared = (data, number, place) => {
    const step = records(data.steps)[number];
    const members = records(data.changes).filter((m) => m.step === number);
    const owners = records(data.owners);
    const most = Math.max(1, ...members.map((m) => m.before + m.gained));
    if (!members.length) return h("p", { class: "soft" }, "Each member owns the same partitions before and after.");
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${place}: members before and after generation ${step.generation}` },
      h("table", {}, heads([text("Member"), figure("before"), figure("after"), figure("lost"), figure("gained"), { text: h("span", { class: "hush" }, "change") }]),
        h("tbody", {}, members.map((m) => h("tr", {},
          h("th", { scope: "row" }, h("b", {}, partage.short(m.owner)), " ", h("bdi", {}, owners[m.owner].label)),
          cell(shown(m.before), m.before), cell(shown(m.after), m.after),
          cell(m.lost ? `−${m.lost}` : "", m.lost), cell(m.gained ? `+${m.gained}` : "", m.gained),
          h("td", { class: "barcell" }, partsOf(m.before, m.gained, m.lost, most)))))));
  };
  const why = (s) => h("p", {}, h("b", { class: "letter" }, partage.letter(s.cause)), ` ${cause(s.cause)}${s.recorded ? "" : " (inferred)"}: ${s.what || "no details"}. `,
    `Downtime ${s.downtime}; partitions moved between live members: ${s.moved === null ? "unknown" : shown(s.moved)}.`);
  const worst = (data) => data.worst.map((one) => {
    const s = records(data.steps)[one.step];
    const cheapest = records(one.cheapest);
    return h("article", { class: "card change" },
      h("h4", {}, `Generation ${named(s)}, ${partage.clock(s.time_ms, 0)} UTC`), why(s), compared(data, one.step, "Worst rebalances"),
      cheapest.length ? h("p", { class: "soft" }, "Least downtime here: ", cheapest.map((p) => `${p.policy} ${p.downtime}`).join("; "), ".") : null);
  });

  // One rebalance below the timeline: chosen in the list, by the buttons, or by a mark of the timeline.
  const picker = (data, chart) => {
    const all = records(data.steps);
    const list = h("select", { id: "picked-step" }, all.map((s, i) => h("option", { value: i },
      `${partage.clock(s.time_ms, 0)} generation ${named(s)}: ${cause(s.cause)}`)));
    const place = h("div", { "aria-live": "polite" });
    const step = (by, label) => {
      const made = h("button", { type: "button", "aria-label": label }, by < 0 ? "‹" : "›");
      made.addEventListener("click", () => show(Number(list.value) + by));
      return made;
    };
    const [back, next] = [step(-1, "Previous rebalance"), step(1, "Next rebalance")];
    const show = (number) => {
      const s = all[number];
      list.value = String(number);
      back.disabled = number === 0;
      next.disabled = number === all.length - 1;
      partage.pick(chart, s.time_ms);
      place.replaceChildren(why(s), s.note ? h("p", { class: "soft" }, s.note) : "", compared(data, number, "Selected rebalance"));
    };
    list.addEventListener("change", () => show(Number(list.value)));
    show(data.worst.length ? data.worst[0].step : all.length - 1);
    return { show, box: h("div", { class: "picked" }, h("div", { class: "tools" }, h("label", { for: "picked-step" }, "Rebalance"), back, list, next), place) };
  };
  const sorter = (chart) => {
    const buttons = ["partition", "member"].map((order) => {
      const made = h("button", { type: "button", "aria-pressed": String(order === "partition") }, order);
      made.addEventListener("click", () => {
        for (const one of buttons) one.setAttribute("aria-pressed", String(one === made));
        partage.sortRows(chart, order);
      });
      return made;
    });
    return h("div", { class: "tools", role: "group", "aria-label": "Order of the rows" }, h("span", { class: "soft" }, "Rows by"), buttons);
  };

  const storms = (data) => {
    const found = records(data.storms);
    if (!data.storms_known) return h("p", { class: "soft" }, "Unknown: an older Partage wrote the run, or it has no storm.");
    if (!found.length) return h("p", {}, "None.");
    const rest = data.storm_count - found.length;
    const made = table("Rebalance storms", [figure("Storm"), text("From"), text("To"), figure("Rebalances"), figure("Downtime", "stopped_estimate"), text("Trigger", "cause"), text("Causes")],
      found.map((s) => h("tr", {}, cell(String(s.number + 1), s.number), cell(partage.clock(s.first, 0)), cell(partage.clock(s.last, 0)),
        cell(shown(s.rebalances), s.rebalances), cell(s.downtime, s.downtime_sort), cell(`${cause(s.trigger)}: ${s.what}`),
        cell(Object.entries(s.causes).map(([kind, times]) => `${times} ${cause(kind)}`).join(", ")))));
    return rest ? [h("p", { class: "soft" }, `The ${found.length} storms with the most downtime of ${shown(data.storm_count)}.`), made] : made;
  };

  const steps = (data) => table("Rebalances", [
    figure("Generation"), text("Time, UTC"), text("Cause", "cause"), text("Change"), figure("Members"),
    figure("Moved", "moved"), figure("Downtime", "stopped_estimate"), figure("Storm", "storm"), text("Note"),
  ], records(data.steps).map((s) => h("tr", {},
    cell(named(s), s.generation), cell(partage.clock(s.time_ms, 0)),
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
        h("span", {}, "number: several rebalances"),
        records(data.unread).length ? [h("span", {}, h("i", { class: "loss" }), "unread (probability at least 90 %)"), h("span", {}, h("i", { class: "maybe" }), "possibly unread")] : null, data.exact ? null : h("span", {}, "+ and paler: other members own parts of it"),
        records(data.gaps).length ? h("span", {}, "hatched: generations missing from the log, owners unknown") : null),
      h("details", { class: "more", open: owners.length <= 8 ? "" : null }, h("summary", {}, data.member_ids > owners.length ? `${shown(owners.length)} clients, ${shown(data.member_ids)} member ids` : `${owners.length} members`),
        h("ul", { class: "members" }, owners)),
    ];
  };

  const part = (title, ...content) => [h("h3", {}, title), ...content.flat().filter((one) => one !== null)];
  const OLD = "This browser cannot unpack the details of a group. Chrome and Edge 80, Firefox 113, Safari 16.4 and later can.";
  let wanted = "";
  const show = (anchor, focus) => {
    const source = document.getElementById(`d-${anchor}`);
    if (!source) return false;
    wanted = anchor;
    if (source.type === "application/json") draw(anchor, JSON.parse(source.textContent), focus);
    else if (!window.DecompressionStream) place.replaceChildren(h("p", { class: "soft" }, OLD));
    else partage.textOf(source).then((found) => { if (wanted === anchor) draw(anchor, JSON.parse(found), focus); });
    return true;
  };
  const draw = (anchor, data, focus) => {
    const bad = records(data.bad);
    const chart = h("div", { class: "chart", role: "img", "aria-label": `Timeline of partition owners in ${data.name}; the tables below have the same as text` });
    const rows = records(data.rows);
    const drawn = rows.length > 0;
    const each = rows.length === data.partitions;
    const listed = records(data.steps).length;
    const part_of = listed < data.rebalances;
    const boxes = data.exact ? "Each box is one partition owned by one member." : `${data.partitions.toLocaleString("en")} partitions in bins: each box shows the member that owned most of it.`;
    const line = records(data.unread_share).length ? ` The red line is the ${data.unread_peaks ? "largest " : ""}share of partitions that no member read${data.unread_peaks ? " at one moment of each bin" : ""}.` : "";
    const marks = part_of ? "Numbers on top count all rebalances; select one for the worst rebalance there." : "Letters on top are rebalances; select one for its cause, and its members before and after.";
    const left_out = part_of ? h("p", { class: "soft" }, `Reduced: ${shown(listed)} of ${shown(data.rebalances)} rebalances are listed: those with the most downtime, the worst of each period, and the newest. Members are merged by client id and host. Unread time below 1 % of a bin is on the red line only. The run's tables have everything.`) : null;
    const picked = drawn && records(data.steps).length ? picker(data, chart) : null;
    place.replaceChildren(h("article", { class: "card group", id: anchor },
      h("h2", {}, h("bdi", {}, data.name)),
      h("p", { class: "soft" }, term("stopped_estimate"), `: ${data.downtime}${data.share ? `, ${data.share} of its partition-time` : ""}.`),
      drawn ? part("Owners over time", h("p", { class: "soft" }, `${boxes}${line} ${marks} Drag the slider to zoom.`), left_out,
        each && rows.length > 1 ? sorter(chart) : null, chart, legend(data), picked ? picked.box : null) : null,
      data.advice.length ? part("What to change here", data.together ? h("p", {}, "Expected gain of all changes together: ", h("b", {}, data.together), ".") : null, h("div", { class: "cards" }, advice(data))) : null,
      part("Policies compared", policies(data.policies, "Policies of this group"),
        records(data.per_rebalance).length ? h("details", { class: "more" }, h("summary", {}, "The same, each rebalance simulated by itself"), policies(data.per_rebalance, "Each rebalance simulated by itself")) : null),
      data.worst.length ? part("Worst rebalances, before and after", h("div", { class: "cards" }, worst(data))) : null,
      part("Rebalance storms", storms(data)),
      part(part_of ? "Rebalances" : "All rebalances", h("details", { class: "more" }, h("summary", {}, part_of ? `${shown(listed)} of ${shown(data.rebalances)} rebalances` : `${listed} rebalances`), steps(data))),
      bad.length ? part("Damaged records of this group", table("Damaged records", [figure("Partition"), figure("Offset"), text("Part"), text("Defect")],
        bad.map((b) => h("tr", {}, cell(shown(b.partition), b.partition), cell(shown(b.offset), b.offset), cell(b.part), cell(b.why))))) : null));
    for (const row of document.querySelectorAll("#group-table tr[aria-current]")) row.removeAttribute("aria-current");
    const link = document.querySelector(`#group-table a[href="#${anchor}"]`);
    if (link) link.closest("tr").setAttribute("aria-current", "true");
    if (drawn) partage.chart(chart, data, picked ? picked.show : null);
    if (focus) {
      place.scrollIntoView();
      place.focus({ preventScroll: true });
    }
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
