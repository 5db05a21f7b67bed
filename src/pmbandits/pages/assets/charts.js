// Charts in the look of the pictures of the library: uPlot, with the colours of the arms, numbers on hover and by the arrow
// keys, and a table behind each chart.
"use strict";
const Charts = (() => {
  // The lines of arms: the same rule as in palette.py.
  const DASHES = [[], [8, 5], [8, 4, 2, 4], [2, 4], [8, 2, 2, 2, 2, 2], [5, 2]];
  const dash = (place) => DASHES[(place + Math.floor(place / 6)) % DASHES.length];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const every = new Set();

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
    return made;
  }

  function number(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
    return Number(value.toPrecision(size >= 1e4 ? Math.max(digits, Math.ceil(Math.log10(size))) : digits)).toLocaleString("en", { maximumFractionDigits: 12 }).replace("-", "−");
  }

  function chip(colour) {
    const made = element("span", { class: "chip", "aria-hidden": "true" });
    made.style.background = colour;
    return made;
  }

  // A bar of shares, the largest first, in the order in which sentences name them.
  function bar(parts, key, percent) {
    return parts.filter((part) => part[key] > 0).sort((a, b) => b[key] - a[key]).map((part) => {
      const made = element("span", { title: `${part.name} ${percent(part[key])}` });
      made.style.width = `${100 * part[key]}%`;
      made.style.background = part.colour;
      return made;
    });
  }

  class Chart {
    // options: title, x, y (labels), note, bend, steps, log, height, range (of y), span (of x), fill
    constructor(host, options) {
      this.options = options;
      this.series = [];
      this.data = null;
      this.events = [];
      this.caption = element("figcaption", {}, element("h3", {}, options.title));
      if (options.note) this.caption.append(element("p", { class: "soft" }, options.note));
      this.plot = element("div", { class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart",
        "aria-label": options.title });
      this.said = element("p", { class: "hidden-visually", "aria-live": "polite" });
      this.body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers: " + options.title });
      this.details = element("details", {}, element("summary", {}, "The numbers"), this.body);
      this.details.addEventListener("toggle", () => this.fill());
      host.classList.add("chart");
      host.replaceChildren(this.caption, this.plot, this.said, this.details);
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.plot.addEventListener("blur", () => { if (this.chart && this.at !== undefined) { this.at = undefined; this.chart.setCursor({ left: -10, top: -10 }); } });
      new ResizeObserver(() => this.resize()).observe(this.plot);
      every.add(this);
    }

    // What is said below the title; it may change with the data.
    note(text) {
      if (!this.noted) { this.noted = element("p", { class: "soft" }); this.caption.append(this.noted); }
      this.noted.textContent = text;
      this.noted.hidden = !text;
    }

    // series: [{label, colour, place, width, dash, fill, band}], data: [x, y, y, …]
    set(series, data, summary, more = {}) {
      const same = this.chart && series.length === this.series.length && this.bend === (more.bend || 0) && this.words === more.words && this.upright === Boolean(more.upright) &&
        series.every((s, k) => s.label === this.series[k].label && s.colour === this.series[k].colour);
      this.series = series;
      this.data = data;
      this.events = more.events || [];
      this.bend = more.bend || 0;
      this.words = more.words; // of both axes, where they change with the data; losses hold to the left of a number
      if (more.words) [this.options.x, this.options.y, this.options.align] = more.words;
      this.upright = Boolean(more.upright); // a logarithmic scale also upwards
      if (summary) this.plot.setAttribute("aria-label", `${this.options.title}. ${summary} Arrow keys read the values.`);
      if (same) this.chart.setData(data);
      else this.build();
      if (this.details.open) this.fill();
    }

    build() {
      if (this.chart) this.chart.destroy();
      if (!this.data) return;
      const { options } = this;
      const ink = () => style("--soft"), grid = { stroke: () => style("--line"), width: 1 };
      const paths = options.steps ? uPlot.paths.stepped({ align: options.align || 1 }) : undefined;
      const font = "12px system-ui, sans-serif";
      const x = { time: false, ...(options.span ? { range: options.span } : {}) };
      if (this.bend) Object.assign(x, { distr: 4, asinh: this.bend });
      else if (options.log) Object.assign(x, { distr: 3, range: (u, low, high) => {
        const xs = this.data[0]; // of one point, uPlot makes a range of several powers of ten
        return !xs.length ? [1, 10] : xs[0] === xs[xs.length - 1] ? [xs[0] / 2, 2 * xs[0]] : [low, high];
      } });
      const axis = (label, size) => ({ label, labelFont: font, labelSize: 18, font, stroke: ink, grid, size,
        ticks: { show: false }, values: (u, ticks) => ticks.map((v) => (v === null ? "" : number(v))) });
      this.chart = new uPlot({
        width: Math.max(this.plot.clientWidth, 200), height: options.height || 230,
        scales: { x, y: { ...(options.range ? { range: options.range } : {}), ...(this.upright ? { distr: 3 } : {}) } },
        axes: [{ ...axis(options.x, 34), space: 45, ...(x.distr === 3 ? { splits: Chart.round, filter: Chart.few } : {}),
          ...(x.distr === 4 ? { splits: (u, at, low, high) => Chart.spread(low, high, this.bend, this.plot.clientWidth), filter: (u, ticks) => ticks } : {}) }, { ...axis(options.y, 54) }],
        legend: { live: true, markers: { dash: (u, k) => { const s = this.series[k - 1] || {};
          return (s.dash || (s.place === undefined ? [] : dash(s.place))).length ? "dashed" : "solid"; } } },
        cursor: { points: { size: 6 }, drag: { x: false, y: false } },
        series: [
          { label: options.short || options.x, value: (u, v) => (v === null ? "" : number(v)) },
          ...this.series.map((s) => ({ label: s.label, stroke: s.ink ? () => style(s.ink) : s.colour, width: s.width || 2,
            dash: s.dash || (s.place === undefined ? [] : dash(s.place)), fill: s.fill, paths: s.points ? () => null : paths,
            points: { show: Boolean(s.points) || (options.log && this.data[0].length < 30 && (s.width || 2) >= 1.4), size: 5 }, spanGaps: Boolean(options.gaps), show: s.show !== false,
            value: (u, v, k, at) => (at === null || at === undefined ? "" : number(v)) })), // nothing is pointed at
        ],
        bands: this.series.flatMap((s, k) => (s.band ? [{ series: [k + 1, k + 2], fill: s.band }] : [])),
        hooks: { draw: [(u) => this.mark(u)] },
      }, this.data, this.plot);
      const entries = this.chart.root.querySelectorAll(".u-legend .u-series");
      this.series.forEach((s, k) => { if (s.quiet || (s.width || 2) < 0.1) entries[k + 1].classList.add("quiet"); });
    }

    // On a scale that is squeezed away from 0: round numbers at about even distances.
    static spread(low, high, width, pixels) {
      const from = Math.asinh(low / width), to = Math.asinh(high / width), many = Math.max(2, Math.floor(pixels / 80));
      const round = (v) => (Math.abs(v) < width ? 0 : Number(v.toPrecision(1)));
      const all = Array.from({ length: many + 1 }, (_, k) => round(width * Math.sinh(from + (to - from) * k / many)));
      return [...new Set(all)].filter((v) => v >= low && v <= high);
    }

    // On a logarithmic scale lines are drawn at 1 to 9 times powers of ten, wherever the scale begins.
    static round(u, axis, low, high) {
      const out = [];
      for (let size = 10 ** Math.floor(Math.log10(low)); size <= high; size *= 10) {
        for (let k = 1; k < 10; k += 1) if (k * size >= low && k * size <= high) out.push(k * size);
      }
      return out;
    }

    // On a logarithmic scale powers of ten are written, and on a short one 2 and 5 times them, too.
    static few(u, ticks) {
      const written = u.scales.x.max > 200 * u.scales.x.min ? /^1e/ : /^[125]e/;
      return ticks.map((v) => (written.test(Number(Number(v).toPrecision(6)).toExponential()) ? v : null));
    }

    // Events are lines from top to bottom.
    mark(u) {
      if (!this.events.length) return;
      const { ctx, bbox } = u;
      ctx.save();
      ctx.setLineDash([4, 4]);
      ctx.lineWidth = 1;
      ctx.strokeStyle = style("--no");
      for (const event of this.events) {
        const at = Math.round(u.valToPos(event.x, "x", true));
        if (at < bbox.left || at > bbox.left + bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(at, bbox.top);
        ctx.lineTo(at, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    }

    resize() {
      const wide = this.plot.clientWidth;
      if (this.chart && wide > 100 && Math.abs(wide - this.chart.width) > 1) {
        this.chart.setSize({ width: wide, height: this.options.height || 230 });
      }
    }

    key(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.chart) return;
      event.preventDefault();
      const x = this.data[0];
      const from = this.at === undefined ? (step > 0 ? -1 : x.length) : this.at;
      this.at = Math.min(Math.max(from + step, 0), x.length - 1);
      this.chart.setCursor({ left: this.chart.valToPos(x[this.at], "x"), top: 10 });
      const values = this.series.map((s, k) => `${s.label} ${number(this.data[k + 1][this.at])}`);
      this.said.textContent = `${this.options.short || this.options.x} ${number(x[this.at])}: ${values.join(", ")}`;
    }

    fill() {
      if (!this.details.open || !this.data) return;
      const heads = [this.options.x, ...this.series.map((s) => s.label)];
      const every = Math.max(1, Math.ceil(this.data[0].length / 120));
      const rows = [];
      for (let k = 0; k < this.data[0].length; k += every) {
        rows.push(element("tr", {}, this.data.map((column) => element("td", { class: "number" }, number(column[k])))));
      }
      this.body.replaceChildren(element("table", {},
        element("thead", {}, element("tr", {}, heads.map((h) => element("th", { class: "number", scope: "col" }, h)))),
        element("tbody", {}, rows)));
    }
  }

  document.addEventListener("themechange", () => { for (const chart of every) chart.build(); });
  // An address below that of the page, without a key that may stand in it.
  const here = (path) => new URL(path, location.origin + location.pathname).href;
  return { Chart, bar, chip, element, number, dash, style, here };
})();
