// Timeline of ownership: partitions down, time across. Drawn as SVG when it comes into view.
(() => {
  const LETTERS = {
    first: "1", migration: "M", broker: "K", bounce: "B", expiry: "X", poll: "P", leave: "L",
    departure: "D", join: "J", resubscription: "R", topics: "T", strategy: "S", "follow-up": "f",
    request: "Q", unknown: "?",
  };
  const FILLS = {
    light: ["#9cc4e8", "#f3c98b", "#a8d8b9", "#e6a8c4", "#c9b8e8", "#e6de8a", "#c3c8d0", "#8fd3d9", "#f0a58f", "#c2d68b"],
    dark: ["#2f5f8a", "#80561c", "#2a6f4b", "#8a3f63", "#5d4a94", "#6b651d", "#525a66", "#1b6d76", "#8f4630", "#536b22"],
  };
  const INK = {
    light: { text: "#171c26", soft: "#566072", line: "#dfe3ea", card: "#ffffff", loss: "#c8102e" },
    dark: { text: "#e7ebf2", soft: "#a0abbc", line: "#2a3240", card: "#161b24", loss: "#ff5a5f" },
  };
  // The three parts of a drawing, from top to bottom: marks of rebalances, the share of partitions
  // without a reader, and the rows.
  const MARKS = 0;
  const SHARE = 1;
  const ROWS = 2;
  partage.letter = (kind) => LETTERS[kind] || "?";
  partage.short = (owner) => `M${owner + 1}`;

  let loaded = false;
  const library = () => {
    if (!loaded) {
      const script = document.createElement("script");
      script.textContent = document.getElementById("library").textContent;
      document.head.append(script);
      loaded = true;
    }
    return window.echarts;
  };

  const two = (n) => String(n).padStart(2, "0");
  partage.clock = (ms, span) => {
    const d = new Date(ms);
    if (Number.isNaN(d.getTime())) return String(ms);
    const time = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
    if (span > 172_800_000) return `${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())} ${time}`;
    return span < 7_200_000 ? `${time}:${two(d.getUTCSeconds())}` : time;
  };
  const rowName = (row) => (row.first_topic === row.last_topic
    ? `${row.first_topic} ${row.first_partition === row.last_partition ? row.first_partition : `${row.first_partition}–${row.last_partition}`}`
    : `${row.first_topic} ${row.first_partition} … ${row.last_topic} ${row.last_partition}`);
  const shorter = (text, most) => (text.length > most ? `…${text.slice(1 - most)}` : text);
  const seconds = (ms) => `${(ms / 1000).toLocaleString("en", { maximumFractionDigits: ms < 10_000 ? 1 : 0 })} s`;
  // Tooltips are elements: names come from the log and must stay text.
  const tip = (...linesOf) => {
    const box = document.createElement("div");
    for (const line of linesOf.filter(Boolean)) {
      const one = document.createElement("div");
      one.textContent = line;
      box.append(one);
    }
    return box;
  };

  // Marks that would overlap become one mark with a count.
  // With a reduced list of rebalances, each mark stands for a period: its rebalances, and the worst.
  const marksOf = (data, width) => {
    const out = [];
    const steps = partage.records(data.steps);
    const periods = partage.records(data.marks);
    const apart = (data.last - data.first) / Math.max(width / (periods.length ? 34 : 13), 1);
    const every = periods.length ? periods.map((one) => ({ number: one.step, count: one.rebalances }))
      : steps.map((_, number) => ({ number, count: 1 }));
    for (const { number, count } of every) {
      const step = steps[number];
      const before = out[out.length - 1];
      if (before && step.time_ms - before.from < apart) {
        if (periods.length && (step.downtime_sort || 0) > (steps[before.number].downtime_sort || 0)) before.number = number;
        before.steps.push(step);
        before.count += count;
      } else out.push({ from: step.time_ms, number, steps: [step], count });
    }
    return out;
  };

  // Positions of the rows: by partition as given, or by the member that owned most of the row.
  const placesOf = (data, rows, boxes, order) => {
    const numbers = rows.map((_, i) => i);
    if (order === "member") {
      const times = rows.map(() => new Map());
      for (const { row, start, end, owner, share } of boxes) {
        times[row].set(owner, (times[row].get(owner) || 0) + (end - start) * share);
      }
      const main = times.map((of) => [...of].reduce((a, b) => (b[1] > a[1] ? b : a), [Infinity, 0])[0]);
      numbers.sort((a, b) => (main[a] === main[b] ? a - b : main[a] - main[b]));
    }
    const places = [];
    numbers.forEach((row, place) => { places[row] = place; });
    return { numbers, places };
  };

  // A red hatch: unread time that is possible but not certain is visible without colour.
  const hatch = (colour) => {
    const canvas = document.createElement("canvas");
    canvas.width = 6;
    canvas.height = 6;
    const pen = canvas.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 1.6;
    for (const x of [-6, 0, 6]) {
      pen.moveTo(x - 1, 7);
      pen.lineTo(x + 7, -1);
    }
    pen.stroke();
    return { image: canvas, repeat: "repeat" };
  };

  const picked = (time, ink) => ({
    silent: true, symbol: "none", label: { show: false }, animation: false,
    lineStyle: { color: ink.text, width: 2, type: "solid" },
    data: time === undefined ? [] : [{ xAxis: time }],
  });
  const rowHeight = (rows) => (rows <= 30 ? 17 : rows <= 60 ? 12 : rows <= 150 ? 7 : 4);

  const draw = (box, scheme) => {
    const echarts = library();
    const data = box.chartData;
    const ink = INK[scheme];
    const fills = FILLS[scheme];
    const span = data.last - data.first;
    const narrow = box.clientWidth < 560;
    const left = narrow ? 78 : 150;
    const rows = partage.records(data.rows);
    const boxes = partage.records(data.boxes);
    const { numbers, places } = placesOf(data, rows, boxes, box.rowOrder);
    const each = rowHeight(rows.length);
    const high = Math.max(rows.length * each, 60);
    const shares = partage.records(data.unread_share);
    const known = shares.length > 0;
    const top = known ? 86 : 30;
    box.style.height = `${high + top + 62}px`;
    const old = echarts.getInstanceByDom(box);
    if (old) old.dispose();
    const chart = echarts.init(box, null, { renderer: "svg" });
    const marks = marksOf(data, box.clientWidth - left);
    const owners = partage.records(data.owners);
    // A box of a row between two times, as large as a screen can show; undefined outside the view.
    const shapeOf = (api, area, row, from, to, least) => {
      const a = api.coord([data.first + from, places[row]]);
      const b = api.coord([data.first + to, places[row]]);
      const height = api.size([0, 1])[1];
      const gap = height > 8 ? 1 : 0;
      return echarts.graphic.clipRectByRect(
        { x: a[0], y: a[1] - height / 2 + gap / 2, width: Math.max(b[0] - a[0], least), height: height - gap },
        { x: area.x, y: area.y, width: area.width, height: area.height },
      );
    };
    const renderItem = (params, api) => {
      const { row, start, end, owner, share } = boxes[params.dataIndex];
      const shape = shapeOf(api, params.coordSys, row, start, end, 1);
      if (!shape) return undefined;
      const label = shape.width > 24 && shape.height > 9;
      return {
        type: "rect",
        shape,
        style: {
          fill: fills[owner % fills.length], opacity: share < 60 ? 0.55 : 1,
          stroke: ink.card, lineWidth: each > 6 ? 0.6 : 0,
        },
        textContent: label ? {
          style: { text: partage.short(owner) + (share < 60 ? " +" : ""), fill: ink.text, fontSize: Math.min(10, shape.height - 1) },
        } : undefined,
        textConfig: label ? { position: "inside" } : undefined,
      };
    };
    const unread = partage.records(data.unread);
    const hatched = hatch(ink.loss);
    const renderUnread = (params, api) => {
      const { row, start, end, certain, share } = unread[params.dataIndex];
      const shape = shapeOf(api, params.coordSys, row, start, end, certain ? 1.5 : 0.5);
      if (!shape) return undefined;
      const opacity = share >= 100 ? 1 : 0.25 + 0.75 * (share / 100);
      return { type: "rect", shape, style: { fill: certain ? ink.loss : hatched, opacity } };
    };
    // Hatched, so that gaps are visible without colour and over any box.
    const gaps = partage.records(data.gaps);
    const renderGap = (params, api) => {
      const { from, to } = gaps[params.dataIndex];
      const area = params.coordSys;
      const x0 = Math.max(api.coord([data.first + from, 0])[0], area.x);
      const x1 = Math.min(Math.max(api.coord([data.first + to, 0])[0], x0 + 3), area.x + area.width);
      if (x1 <= x0) return undefined;
      const [y0, y1] = [area.y, area.y + area.height];
      const apart = Math.max(7, (x1 - x0 + y1 - y0) / 300);
      const lines = [];
      for (let x = x0 - (y1 - y0); x < x1; x += apart) {
        const [a, b] = [Math.max(x, x0), Math.min(x + y1 - y0, x1)];
        lines.push({ type: "line", silent: true, shape: { x1: a, y1: y1 - (a - x), x2: b, y2: y1 - (b - x) }, style: { stroke: ink.text, lineWidth: 1, opacity: 0.45 } });
      }
      return { type: "group", children: [
        { type: "rect", shape: { x: x0, y: y0, width: x1 - x0, height: y1 - y0 }, style: { fill: ink.card, opacity: 0.55 } }, ...lines,
      ] };
    };
    const largest = Math.max(0, ...shares.map((one) => one.percent));
    const scale = [1, 2, 5, 10, 20, 50].find((one) => one >= largest) || 100;
    const line = known ? [...shares, { at: span, percent: shares[shares.length - 1].percent }] : [];
    const times = (from, to) => `${partage.clock(data.first + from, 0)} to ${partage.clock(data.first + to, 0)} UTC`;
    const describe = {
      marks: (i) => {
        const { steps, count } = marks[i];
        const lines = count > steps.length ? [`${count.toLocaleString("en")} rebalances. The worst:`] : [];
        lines.push(...steps.slice(0, 6).map((s) => `${partage.clock(s.time_ms, 0)} generation ${s.generation}: ${s.what || s.cause}`));
        if (steps.length > 6) lines.push(`and ${steps.length - 6} more`);
        return tip(...lines, box.onPick ? "Select it for details below the timeline." : "");
      },
      gaps: (i) => tip(`${gaps[i].generations} generation${gaps[i].generations === 1 ? "" : "s"} missing from the log`,
        `${times(gaps[i].from, gaps[i].to)}: owners unknown`),
      unread: (i) => {
        const { row, start, end, certain, share } = unread[i];
        return tip(rowName(rows[row]),
          `${certain ? "Unread" : "Possibly unread"}${data.unread_exact ? ` for ${seconds(end - start)}` : `: ${share} % of this time`}`,
          times(start, end));
      },
      owners: (i) => {
        const { row, start, end, owner, share } = boxes[i];
        return tip(rowName(rows[row]), `${partage.short(owner)} ${owners[owner].label}`, times(start, end),
          data.exact ? "" : `owns ${share} % of these partitions in this time, the most of all members`);
      },
    };
    const labelled = Math.ceil(12 / each);
    chart.setOption({
      animation: false,
      textStyle: { color: ink.text, fontFamily: "inherit" },
      grid: [
        { left, right: 34, top: 8, height: 20 },
        { left, right: 34, top: 36, height: known ? 40 : 0, show: false },
        { left, right: 34, top, height: high },
      ],
      tooltip: {
        confine: true, backgroundColor: ink.card, borderColor: ink.line,
        textStyle: { color: ink.text, fontSize: 12 },
        extraCssText: "max-width:340px;white-space:normal;overflow-wrap:anywhere",
        formatter: (at) => (describe[at.seriesName] ? describe[at.seriesName](at.dataIndex) : ""),
      },
      xAxis: [MARKS, SHARE, ROWS].map((gridIndex) => ({
        type: "value", gridIndex, min: data.first, max: data.last,
        axisLabel: { show: gridIndex === ROWS, color: ink.soft, hideOverlap: true, formatter: (v) => partage.clock(v, span) },
        axisLine: { show: gridIndex === ROWS || (gridIndex === SHARE && known), lineStyle: { color: ink.line } },
        axisTick: { show: false }, splitLine: { show: false }, splitNumber: narrow ? 2 : 6,
      })),
      yAxis: [
        { type: "category", gridIndex: MARKS, data: [""], show: false },
        {
          type: "value", gridIndex: SHARE, min: 0, max: scale, interval: scale, show: known,
          axisLabel: { color: ink.soft, fontSize: 10, formatter: (v) => (v ? `${narrow ? "" : "unread "}${v} %` : "0") },
          axisLine: { show: false }, axisTick: { show: false }, splitLine: { lineStyle: { color: ink.line } },
        },
        {
          type: "category", gridIndex: ROWS, inverse: true, data: numbers.map((row) => rowName(rows[row])),
          axisLabel: { color: ink.soft, fontSize: 10, interval: (i) => i % labelled === 0, formatter: (v) => shorter(v, narrow ? 12 : 24) },
          axisLine: { show: false }, axisTick: { show: false },
        },
      ],
      dataZoom: [
        { type: "slider", xAxisIndex: [MARKS, SHARE, ROWS], bottom: 6, height: 18, showDetail: false, borderColor: ink.line, filterMode: "none", brushSelect: false },
        { type: "inside", xAxisIndex: [MARKS, SHARE, ROWS], zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false, filterMode: "none" },
      ],
      series: [
        {
          type: "scatter", name: "marks", xAxisIndex: MARKS, yAxisIndex: MARKS, data: marks.map((mark) => [mark.from, 0]),
          symbol: "roundRect", symbolSize: [partage.records(data.marks).length ? 30 : 14, 16], cursor: "pointer",
          itemStyle: { color: ink.card, borderColor: ink.soft, borderWidth: 1 },
          label: {
            show: true, color: ink.text, fontSize: 10, fontWeight: 600,
            formatter: (at) => {
              const { steps, count } = marks[at.dataIndex];
              if (count >= 1000) return `${Math.round(count / 1000)}k`;
              return count > 1 ? String(count) : partage.letter(steps[0].cause);
            },
          },
        },
        {
          type: "line", name: "share", xAxisIndex: SHARE, yAxisIndex: SHARE, step: "end", showSymbol: false, silent: true,
          lineStyle: { color: ink.loss, width: 1.4 }, areaStyle: { color: ink.loss, opacity: 0.22 },
          data: line.map((one) => [data.first + one.at, one.percent]),
        },
        {
          type: "custom", name: "owners", xAxisIndex: ROWS, yAxisIndex: ROWS, renderItem, clip: true,
          data: boxes.map((one) => [data.first + one.start, places[one.row]]),
          markLine: {
            silent: true, symbol: "none", label: { show: false },
            lineStyle: { color: ink.text, width: 1, type: [2, 3], opacity: 0.55 },
            data: marks.length <= 120 ? marks.map((mark) => ({ xAxis: mark.from })) : [],
          },
        },
        {
          type: "custom", name: "unread", xAxisIndex: ROWS, yAxisIndex: ROWS, renderItem: renderUnread, clip: true, z: 4,
          data: unread.map((one) => [data.first + one.start, places[one.row]]),
        },
        {
          type: "custom", name: "gaps", xAxisIndex: ROWS, yAxisIndex: ROWS, renderItem: renderGap, clip: true, z: 5,
          data: gaps.map((one) => [data.first + one.from, 0]),
        },
        { type: "scatter", id: "picked", name: "picked", xAxisIndex: ROWS, yAxisIndex: ROWS, data: [], z: 6, markLine: picked(box.pickedTime, ink) },
      ],
    });
    chart.on("click", { seriesName: "marks" }, (at) => {
      if (box.onPick) box.onPick(marks[at.dataIndex].number);
    });
    box.dataset.drawn = scheme;
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const shown = new Set();
  const again = (scheme) => {
    for (const box of shown) {
      if (box.isConnected) draw(box, scheme);
      else shown.delete(box);
    }
  };
  let printing = false;
  const now = () => (dark.matches && !printing ? "dark" : "light");
  dark.addEventListener("change", () => again(now()));
  const paper = (on) => {
    printing = on;
    again(now());
  };
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => again(now()), 150);
  });
  const watch = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting || !one.target.chartData) continue;
      watch.unobserve(one.target);
      shown.add(one.target);
      draw(one.target, now());
    }
  }, { rootMargin: "200px" });
  partage.chart = (box, data, onPick) => {
    Object.assign(box, { chartData: data, onPick });
    watch.observe(box);
  };
  partage.sortRows = (box, order) => {
    box.rowOrder = order;
    if (shown.has(box)) draw(box, now());
  };
  // Shows the time of the rebalance that is open below the timeline.
  partage.pick = (box, time) => {
    box.pickedTime = time;
    const chart = shown.has(box) && library().getInstanceByDom(box);
    if (chart) chart.setOption({ series: [{ id: "picked", markLine: picked(time, INK[now()]) }] });
  };
})();
