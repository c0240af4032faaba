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
    light: { text: "#171c26", soft: "#566072", line: "#dfe3ea", card: "#ffffff" },
    dark: { text: "#e7ebf2", soft: "#a0abbc", line: "#2a3240", card: "#161b24" },
  };
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
  const marksOf = (data, width) => {
    const apart = (data.last - data.first) / Math.max(width / 13, 1);
    const out = [];
    for (const step of partage.records(data.steps)) {
      const before = out[out.length - 1];
      if (before && step.time_ms - before.from < apart) before.steps.push(step);
      else out.push({ from: step.time_ms, steps: [step] });
    }
    return out;
  };

  const draw = (box, data, scheme) => {
    const echarts = library();
    const ink = INK[scheme];
    const fills = FILLS[scheme];
    const span = data.last - data.first;
    const narrow = box.clientWidth < 560;
    const left = narrow ? 78 : 150;
    const rows = partage.records(data.rows);
    const high = Math.max(rows.length * (rows.length > 30 ? 12 : 17), 60);
    box.style.height = `${high + 92}px`;
    const old = echarts.getInstanceByDom(box);
    if (old) old.dispose();
    const chart = echarts.init(box, null, { renderer: "svg" });
    const marks = marksOf(data, box.clientWidth - left);
    const marked = marks.map((mark) => [mark.from, 0]);
    const boxes = partage.records(data.boxes);
    const owners = partage.records(data.owners);
    const renderItem = (params, api) => {
      const { row, start, end, owner, share } = boxes[params.dataIndex];
      const a = api.coord([data.first + start, row]);
      const b = api.coord([data.first + end, row]);
      const height = api.size([0, 1])[1];
      const gap = height > 8 ? 1 : 0;
      const area = params.coordSys;
      const shape = echarts.graphic.clipRectByRect(
        { x: a[0], y: a[1] - height / 2 + gap / 2, width: Math.max(b[0] - a[0], 1), height: height - gap },
        { x: area.x, y: area.y, width: area.width, height: area.height },
      );
      if (!shape) return undefined;
      const label = shape.width > 24 && height > 9;
      return {
        type: "rect",
        shape,
        style: {
          fill: fills[owner % fills.length], opacity: share < 60 ? 0.55 : 1,
          stroke: ink.card, lineWidth: 0.6,
        },
        textContent: label ? {
          style: { text: partage.short(owner) + (share < 60 ? " +" : ""), fill: ink.text, fontSize: Math.min(10, height - 2) },
        } : undefined,
        textConfig: label ? { position: "inside" } : undefined,
      };
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
    chart.setOption({
      animation: false,
      textStyle: { color: ink.text, fontFamily: "inherit" },
      grid: [
        { left, right: 34, top: 8, height: 20 },
        { left, right: 34, top: 30, height: high },
      ],
      tooltip: {
        confine: true, backgroundColor: ink.card, borderColor: ink.line,
        textStyle: { color: ink.text, fontSize: 12 },
        extraCssText: "max-width:340px;white-space:normal;overflow-wrap:anywhere",
        formatter: (at) => {
          if (at.seriesIndex === 0) {
            const { steps } = marks[at.dataIndex];
            const lines = steps.slice(0, 6).map((s) => `${partage.clock(s.time_ms, 0)} generation ${s.generation}: ${s.what || s.cause}`);
            if (steps.length > 6) lines.push(`and ${steps.length - 6} more`);
            return tip(...lines);
          }
          if (at.seriesIndex === 2) {
            const { from, to, generations } = gaps[at.dataIndex];
            return tip(`${generations} generation${generations === 1 ? "" : "s"} missing from the log`,
              `${partage.clock(data.first + from, 0)} to ${partage.clock(data.first + to, 0)} UTC: owners unknown`);
          }
          const { row, start, end, owner, share } = boxes[at.dataIndex];
          return tip(rowName(rows[row]), `${partage.short(owner)} ${owners[owner].label}`,
            `${partage.clock(data.first + start, 0)} to ${partage.clock(data.first + end, 0)} UTC`,
            data.exact ? "" : `owns ${share} % of these partitions in this time, the most of all members`);
        },
      },
      xAxis: [0, 1].map((gridIndex) => ({
        type: "value", gridIndex, min: data.first, max: data.last,
        axisLabel: { show: gridIndex === 1, color: ink.soft, hideOverlap: true, formatter: (v) => partage.clock(v, span) },
        axisLine: { show: gridIndex === 1, lineStyle: { color: ink.line } },
        axisTick: { show: false }, splitLine: { show: false }, splitNumber: narrow ? 2 : 6,
      })),
      yAxis: [
        { type: "category", gridIndex: 0, data: [""], show: false },
        {
          type: "category", gridIndex: 1, inverse: true, data: rows.map(rowName),
          axisLabel: { color: ink.soft, fontSize: 10, interval: rows.length > 30 ? 1 : 0, formatter: (v) => shorter(v, narrow ? 12 : 24) },
          axisLine: { show: false }, axisTick: { show: false },
        },
      ],
      dataZoom: [
        { type: "slider", xAxisIndex: [0, 1], bottom: 6, height: 18, showDetail: false, borderColor: ink.line, filterMode: "none", brushSelect: false },
        { type: "inside", xAxisIndex: [0, 1], zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false, filterMode: "none" },
      ],
      series: [
        {
          type: "scatter", xAxisIndex: 0, yAxisIndex: 0, data: marked, symbol: "roundRect", symbolSize: [14, 16],
          itemStyle: { color: ink.card, borderColor: ink.soft, borderWidth: 1 },
          label: {
            show: true, color: ink.text, fontSize: 10, fontWeight: 600,
            formatter: (at) => {
              const { steps } = marks[at.dataIndex];
              return steps.length > 1 ? String(steps.length) : partage.letter(steps[0].cause);
            },
          },
        },
        {
          type: "custom", xAxisIndex: 1, yAxisIndex: 1, renderItem, clip: true,
          data: boxes.map((one) => [data.first + one.start, one.row]),
          markLine: {
            silent: true, symbol: "none", label: { show: false },
            lineStyle: { color: ink.text, width: 1, type: [2, 3], opacity: 0.55 },
            data: marks.length <= 120 ? marks.map((mark) => ({ xAxis: mark.from })) : [],
          },
        },
        {
          type: "custom", xAxisIndex: 1, yAxisIndex: 1, renderItem: renderGap, clip: true, z: 5,
          data: gaps.map((one) => [data.first + one.from, 0]),
        },
      ],
    });
    box.dataset.drawn = scheme;
    return chart;
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const shown = new Map();
  const again = (scheme) => {
    for (const [box, data] of shown) {
      if (box.isConnected) draw(box, data, scheme);
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
      shown.set(one.target, one.target.chartData);
      draw(one.target, one.target.chartData, now());
    }
  }, { rootMargin: "200px" });
  partage.chart = (box, data) => {
    box.chartData = data;
    watch.observe(box);
  };
})();
