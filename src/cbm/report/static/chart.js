// Panels of lines over environment steps. All panels of a chart share their range of steps; each has its own height.

const MARGIN = { top: 8, right: 20, bottom: 34, left: 48 };
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "4 2", "12 4", "1 2 6 2", "3 5"];
const MARKS = ["circle", "square", "triangle", "diamond", "down", "plus", "cross", "ring"];
const COLOURS = 8;

/** How a method looks, everywhere on the page: colour, dashes and mark, so that it stands out in grey as well. */
const look_of = (index) => ({
  colour: `var(--c${index % COLOURS})`,
  dash: DASHES[(index + Math.floor(index / COLOURS)) % DASHES.length],
  mark: MARKS[(index + 3 * Math.floor(index / COLOURS)) % MARKS.length],
});

const polyline = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;

function mark_path(mark, x, y, r) {
  const at = (points) => polyline(points.map(([dx, dy]) => [x + dx * r, y + dy * r]));
  if (mark === "square") return `${at([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]])}Z`;
  if (mark === "triangle") return `${at([[0, -1.1], [1.1, 0.9], [-1.1, 0.9]])}Z`;
  if (mark === "down") return `${at([[0, 1.1], [1.1, -0.9], [-1.1, -0.9]])}Z`;
  if (mark === "diamond") return `${at([[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]])}Z`;
  if (mark === "plus") return `${at([[-1.2, 0], [1.2, 0]])}${at([[0, -1.2], [0, 1.2]])}`;
  if (mark === "cross") return `${at([[-1, -1], [1, 1]])}${at([[-1, 1], [1, -1]])}`;
  return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
}
const is_open = (mark) => mark === "plus" || mark === "cross" || mark === "ring";
const mark_paint = ({ colour, mark }) => ({ stroke: colour, fill: is_open(mark) ? "var(--surface)" : colour });

/** A short piece of a line, for legends. */
function swatch(look) {
  const path = svg("path", { d: "M1,7H33", stroke: look.colour, "stroke-width": 2, "stroke-dasharray": look.dash, fill: "none" });
  const mark = svg("path", { d: mark_path(look.mark, 17, 7, 3.6), "stroke-width": 1.5, ...mark_paint(look) });
  return svg("svg", { width: 34, height: 14, viewBox: "0 0 34 14", "aria-hidden": "true", class: "swatch" }, path, mark);
}

/** Round numbers between two ends. */
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? raw;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(+(i * step).toPrecision(12));
  return found;
}

class Chart {
  /** Panels inside `holder`. `on_zoom` is told whether anything is zoomed when that may have changed. */
  constructor(holder, on_zoom) {
    this.on_zoom = on_zoom;
    this.grid = el("div", { class: "panels" });
    holder.append(this.grid);
    this.panels = new Map();
    this.x = null; // the range of steps that is zoomed to, in every panel
    this.y = new Map(); // panel key -> its range
    this.wide = null; // the key of the panel that takes the whole width
    new ResizeObserver(() => this.draw_soon()).observe(this.grid);
  }

  reset() {
    this.x = null;
    this.y.clear();
    this.draw();
    this.on_zoom(false);
  }

  /** Panels: [{key, title, label, lines: [{name, look, steps, values, low, high, n, of, thin}], rules, zero}]. */
  set(panels) {
    this.data = panels;
    const nodes = panels.map((data) => {
      if (!this.panels.has(data.key)) this.panels.set(data.key, new Panel(this, data.key));
      return Object.assign(this.panels.get(data.key), { data }).root;
    });
    if (!panels.some((panel) => panel.key === this.wide)) this.wide = null;
    keep_children(this.grid, nodes);
    this.draw();
  }

  /** The steps that are shown now. */
  range() {
    return this.x ?? this.full();
  }

  /** From the first to the last step of anything that is shown. */
  full() {
    const steps = this.data.flatMap((panel) => panel.lines.flatMap((line) => [line.steps[0], line.steps.at(-1)]));
    const [low, high] = extent(steps);
    return high > low ? [low, high] : [low - 1, low + 1];
  }

  zoom_x(low, high) {
    const [first, last] = this.full();
    const least = (last - first) / 500;
    if (high - low < least) {
      const middle = (low + high) / 2;
      [low, high] = [middle - least / 2, middle + least / 2];
    }
    if (low < first) [low, high] = [first, Math.min(last, high + first - low)];
    if (high > last) [low, high] = [Math.max(first, low + last - high), last];
    this.x = high - low > (last - first) * 0.999 ? null : [low, high];
  }

  zoomed_now() {
    this.draw_soon();
    this.on_zoom(this.x !== null || this.y.size > 0);
  }

  draw_soon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    if (!this.data) return;
    const panels = this.data.map((panel) => this.panels.get(panel.key));
    for (const panel of panels) panel.root.classList.toggle("wide", this.wide === panel.key);
    const widths = panels.map((panel) => panel.root.clientWidth); // measure all of them before writing: one layout
    panels.forEach((panel, i) => panel.draw(widths[i]));
  }
}

let panels_made = 0;

class Panel {
  constructor(chart, key) {
    this.chart = chart;
    this.key = key;
    this.clip = `clip${(panels_made += 1)}`;
    this.title = el("h3");
    this.grow = el("button", { type: "button", class: "small", title: "one panel, the whole width", onclick: () => this.toggle_wide() });
    this.picture = svg("svg", { class: "plot", tabindex: 0, role: "img" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.root = el("figure", { class: "panel" }, el("figcaption", {}, this.title, this.grow), el("div", { class: "plot-box" }, this.picture, this.tip));
    this.pointers = new Map();
    const on = (act, ...kinds) => {
      for (const kind of kinds) this.picture.addEventListener(kind, act.bind(this), { passive: false });
    };
    on(this.down, "pointerdown");
    on(this.move, "pointermove");
    on(this.up, "pointerup", "pointercancel");
    on(this.hide_tip, "pointerleave", "blur");
    on(this.wheel, "wheel");
    on(this.key_down, "keydown");
    on(() => chart.reset(), "dblclick");
  }

  toggle_wide() {
    this.chart.wide = this.chart.wide === this.key ? null : this.key;
    this.chart.draw();
    this.root.scrollIntoView({ block: "nearest" });
  }

  natural_y(x) {
    const values = this.data.rules.map((rule) => rule.value);
    for (const line of this.data.scale ?? this.data.lines) {
      line.steps.forEach((step, i) => {
        if (step >= x[0] && step <= x[1]) values.push(line.values[i], line.low?.[i], line.high?.[i]);
      });
      values.push(...x.map((end) => value_at(line, end)));
    }
    let [low, high] = extent(values);
    if (!Number.isFinite(low)) return [0, 1];
    if (this.data.zero && low > 0 && !this.chart.x) low = 0;
    const space = (high - low || Math.abs(high) || 1) * 0.06;
    return [this.data.zero && low === 0 ? 0 : low - space, high + space];
  }

  draw(room) {
    const { data, chart } = this;
    const wide = chart.wide === this.key;
    this.title.textContent = data.title;
    this.grow.textContent = wide ? "smaller" : "larger";
    this.grow.setAttribute("aria-label", `${data.title}: ${wide ? "smaller" : "larger"}`);
    const width = Math.max(200, room || 320);
    const height = wide ? Math.min(520, Math.max(300, width * 0.5)) : 230;
    const x = chart.range();
    const y = chart.y.get(this.key) ?? this.natural_y(x);
    this.box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    const { left, right, top, bottom } = this.box;
    const at_x = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (right - left);
    const at_y = (value) => bottom - ((value - y[0]) / (y[1] - y[0])) * (bottom - top);
    this.scale = { x, at_x, at_y, to_x: (px) => x[0] + ((px - left) / (right - left)) * (x[1] - x[0]), to_y: (py) => y[0] + ((bottom - py) / (bottom - top)) * (y[1] - y[0]) };
    const frame = svg("g", { class: "axes" });
    for (const value of ticks(y[0], y[1], Math.max(2, (bottom - top) / 45))) {
      const py = at_y(value).toFixed(1);
      frame.append(svg("path", { d: `M${left},${py}H${right}`, class: "grid" }), svg("text", { x: left - 6, y: +py + 3.5, "text-anchor": "end" }, number_text(value)));
    }
    for (const value of ticks(x[0], x[1], Math.max(2, (right - left) / 75))) {
      const px = at_x(value).toFixed(1);
      frame.append(svg("path", { d: `M${px},${bottom}v4`, class: "axis" }), svg("text", { x: px, y: bottom + 16, "text-anchor": "middle" }, steps_text(value)));
    }
    frame.append(svg("path", { d: `M${left},${bottom}H${right}`, class: "axis" }));
    frame.append(svg("text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle", class: "axis-name" }, "environment steps"));
    const inside = svg("g", { "clip-path": `url(#${this.clip})` });
    for (const rule of data.rules) {
      const py = at_y(rule.value).toFixed(1);
      const name = svg("text", { x: right - 4, y: +py - 4, "text-anchor": "end", class: "rule-name" }, rule.name);
      inside.append(svg("path", { d: `M${left},${py}H${right}`, class: "rule", stroke: rule.look?.colour, "stroke-dasharray": "1 4" }), name);
    }
    for (const line of data.lines) this.draw_band(inside, line);
    for (const line of data.lines) this.draw_line(inside, line);
    this.cursor = svg("path", { class: "cursor", d: "" });
    this.selection = svg("rect", { class: "selection", width: 0, height: 0 });
    set_up(this.picture, { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": this.summary() });
    this.picture.dataset.x = x.map((value) => Math.round(value)).join(" ");
    const clip = svg("clipPath", { id: this.clip }, svg("rect", { x: left, y: top - 4, width: right - left + 6, height: bottom - top + 4 }));
    this.picture.replaceChildren(svg("defs", {}, clip), frame, inside, this.cursor, this.selection);
  }

  summary() {
    const ends = this.data.lines.map((line) => `${line.name} ${number_text(line.values.at(-1))} at ${steps_text(line.steps.at(-1))}`);
    return `${this.data.title}, ${this.data.label} over environment steps. ${ends.join("; ")}. Plus and minus zoom, arrows move, 0 resets.`;
  }

  draw_band(inside, line) {
    const known = line.low ? line.steps.map((_, i) => i).filter((i) => line.low[i] !== null) : [];
    if (known.length < 2) return;
    const { at_x, at_y } = this.scale;
    const edge = (values) => known.map((i) => [at_x(line.steps[i]), at_y(values[i])]);
    const around = polyline([...edge(line.high), ...edge(line.low).reverse()]);
    inside.append(svg("path", { d: `${around}Z`, fill: line.look.colour, class: "band" }));
  }

  draw_line(inside, line) {
    const { at_x, at_y } = this.scale;
    const points = line.steps.map((step, i) => [at_x(step), at_y(line.values[i])]);
    const whole = line.n ? line.n.findLastIndex((n) => n === line.of) : points.length - 1;
    const style = { stroke: line.look.colour, "stroke-dasharray": line.look.dash, fill: "none", "stroke-width": line.thin ? 1.2 : 2 };
    const group = svg("g", { class: line.thin ? "line thin" : "line", "data-name": line.name });
    if (whole >= 0) group.append(svg("path", { d: polyline(points.slice(0, whole + 1)), ...style }));
    if (whole < points.length - 1) group.append(svg("path", { d: polyline(points.slice(Math.max(0, whole))), ...style, class: "partial" }));
    const every = Math.max(1, Math.ceil(points.length / 8));
    const shown = points.filter((_, i) => i === points.length - 1 || (i % every === 0 && !line.thin));
    const marks = shown.map(([px, py]) => mark_path(line.look.mark, px, py, line.thin ? 2.4 : 3.2)).join("");
    group.append(svg("path", { d: marks, "stroke-width": 1.4, ...mark_paint(line.look) }));
    inside.append(group);
  }

  place(event) {
    const rect = this.picture.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  }

  down(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, this.place(event));
    try {
      this.picture.setPointerCapture(event.pointerId);
    } catch {
      // the pointer is gone already
    }
    const { middle, apart } = this.fingers();
    const [low, high] = this.scale.x;
    this.start = { at: this.place(event), step: this.scale.to_x(middle), spread: (high - low) * apart };
  }

  /** The middle between the fingers, and how far apart they are; a single one keeps its distance. */
  fingers() {
    const [low, high] = extent([...this.pointers.values()].map(([px]) => px));
    return { middle: (low + high) / 2, apart: Math.max(8, high - low) };
  }

  move(event) {
    const at = this.place(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, at);
    if (this.start && event.pointerType === "mouse") this.select(at);
    else if (this.start && (this.chart.x || this.pointers.size > 1)) this.drag();
    if (this.pointers.size < 2) this.show_tip(at);
  }

  /** What was under the fingers stays under them. */
  drag() {
    const { middle, apart } = this.fingers();
    const { left, right } = this.box;
    const size = this.start.spread / apart;
    const low = this.start.step - ((middle - left) / (right - left)) * size;
    this.chart.zoom_x(low, low + size);
    this.chart.zoomed_now();
  }

  /** The rectangle that the user draws with a mouse. A nearly flat one means the whole height. */
  select(at) {
    const { left, right, top, bottom } = this.box;
    const span = (axis, low, high) => extent([this.start.at[axis], at[axis]].map((value) => Math.min(high, Math.max(low, value))));
    const x = span(0, left, right);
    const y = span(1, top, bottom);
    const flat = y[1] - y[0] < 20;
    this.chosen = x[1] - x[0] < 6 ? null : { x, y: flat ? null : y };
    const [low, high] = flat ? [top, bottom] : y;
    set_up(this.selection, { x: x[0], y: low, width: this.chosen ? x[1] - x[0] : 0, height: high - low });
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    if (this.chosen) {
      const { to_x, to_y } = this.scale;
      const { x, y } = this.chosen;
      if (y) this.chart.y.set(this.key, [to_y(y[1]), to_y(y[0])]);
      this.chart.zoom_x(to_x(x[0]), to_x(x[1]));
      this.chart.zoomed_now();
    }
    this.chosen = null;
    this.start = null;
  }

  /** The wheel scrolls the page, unless the panel has been clicked or Ctrl is down (as when a touchpad is pinched). */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.picture) return;
    event.preventDefault();
    const { left, right } = this.box;
    this.zoom_by(1.0015 ** event.deltaY, (this.place(event)[0] - left) / (right - left));
  }

  /** Zoom around a place in the panel, from 0 (left) to 1 (right). The drawing may lag behind, so ask the chart. */
  zoom_by(factor, share = 0.5) {
    const x = this.chart.range();
    const middle = x[0] + share * (x[1] - x[0]);
    this.chart.zoom_x(middle - (middle - x[0]) * factor, middle + (x[1] - middle) * factor);
    this.chart.zoomed_now();
  }

  key_down(event) {
    const x = this.chart.range();
    const step = (x[1] - x[0]) / 5;
    const acts = {
      "+": () => this.zoom_by(0.7),
      "=": () => this.zoom_by(0.7),
      "-": () => this.zoom_by(1 / 0.7),
      ArrowLeft: () => this.chart.zoom_x(x[0] - step, x[1] - step),
      ArrowRight: () => this.chart.zoom_x(x[0] + step, x[1] + step),
      0: () => this.chart.reset(),
      Escape: () => this.chart.reset(),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
    this.chart.zoomed_now();
  }

  /** The values of every line at the step nearest to the pointer. */
  show_tip([px, py]) {
    const { left, right } = this.box;
    const { at_x, at_y, to_x, x } = this.scale;
    const all = unique(this.data.lines.flatMap((line) => line.steps)).filter((step) => step >= x[0] && step <= x[1]);
    if (!all.length || px < left - 10 || px > right + 10) return this.hide_tip();
    const wanted = to_x(px);
    const step = all.reduce((best, s) => (Math.abs(s - wanted) < Math.abs(best - wanted) ? s : best));
    const rows = this.data.lines
      .map((line) => ({ line, i: line.steps.indexOf(step), value: value_at(line, step) }))
      .filter((row) => row.value !== null)
      .sort((a, b) => b.value - a.value);
    this.cursor.setAttribute("d", `M${at_x(step).toFixed(1)},${this.box.top}V${this.box.bottom}`);
    const shown = rows.length > 12 ? nearest_rows(rows, py, at_y) : rows;
    this.tip.replaceChildren(
      el("b", {}, `${steps_text(step)} steps`),
      ...shown.map(({ line, i, value }) => {
        const between = i >= 0 && line.low && line.low[i] !== null ? ` [${number_text(line.low[i])}, ${number_text(line.high[i])}]` : "";
        const seeds = i >= 0 && line.n ? ` n=${line.n[i]}${line.n[i] < line.of ? ` of ${line.of}` : ""}` : "";
        return el("div", {}, swatch(line.look), el("span", {}, line.name), el("em", {}, `${number_text(value)}${between}${seeds}`));
      }),
      ...(shown.length < rows.length ? [el("div", { class: "quiet" }, `and ${rows.length - shown.length} more`)] : []),
    );
    this.tip.hidden = false;
    const half = this.tip.offsetWidth / 2;
    const room = this.picture.clientWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room - 2 * half, at_x(step) - half))}px`;
    this.tip.style.top = `${this.box.bottom + 22}px`;
  }

  hide_tip() {
    this.tip.hidden = true;
    this.cursor?.setAttribute("d", "");
  }
}

const nearest_rows = (rows, py, at_y) =>
  [...rows]
    .sort((a, b) => Math.abs(at_y(a.value) - py) - Math.abs(at_y(b.value) - py))
    .slice(0, 10)
    .sort((a, b) => b.value - a.value);
