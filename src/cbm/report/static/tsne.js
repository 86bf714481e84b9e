// An embedding: points that show their frame when pointed at.

const CIVIDIS = [[0, 34, 78], [35, 62, 108], [87, 93, 109], [124, 123, 120], [165, 156, 116], [211, 193, 100], [254, 232, 56]];

/** A colour of the map `cividis` for a share in [0, 1]: its lightness rises evenly, so it works in grey too. */
function cividis(share) {
  const place = Math.min(1, Math.max(0, share)) * (CIVIDIS.length - 1);
  const i = Math.min(CIVIDIS.length - 2, Math.floor(place));
  const mix = CIVIDIS[i].map((low, c) => Math.round(low + (place - i) * (CIVIDIS[i + 1][c] - low)));
  return `rgb(${mix.join(",")})`;
}

/** Leaves out the end of the map that would not stand out from the light or the dark background. */
const shade = (share) => `light-dark(${cividis(0.93 * share)}, ${cividis(0.25 + 0.75 * share)})`;

class Embedding {
  constructor() {
    const point = (event) => this.point(event);
    const listeners = { onpointermove: point, onpointerdown: point, onkeydown: (event) => this.key_down(event) };
    this.scatter = svg("svg", { class: "scatter", tabindex: 0, role: "img", ...listeners });
    this.ring = svg("circle", { r: 7, fill: "none", stroke: "var(--ink)", "stroke-width": 2 });
    this.frame = el("canvas", { class: "frame", width: 128, height: 128 });
    this.words = el("p", { class: "quiet", "aria-live": "polite" });
    this.legend = el("div", { class: "legend" });
    this.title = el("h3");
    this.root = el("figure", { class: "embedding" }, el("figcaption", {}, this.title), this.scatter, el("div", { class: "under" }, this.frame, this.words), this.legend);
    new ResizeObserver(() => this.draw()).observe(this.scatter);
  }

  async show(run, colour) {
    this.colour = colour;
    this.title.textContent = `${run.method}, ${run.task}, ${run.distraction}, seed ${run.seed}`;
    const points = run.media.find((medium) => medium.kind === "tsne");
    const frames = run.media.find((medium) => medium.kind === "frames" && !medium.left_out);
    const source = points.embed ?? points.url;
    if (this.source !== source) {
      Object.assign(this, { source, points: null, picked: null, sheet: null });
      try {
        const found = await media_json(points);
        if (this.source !== source) return; // another run was chosen while this one was loading
        this.points = found;
      } catch (error) {
        this.words.textContent = `The points cannot be read: ${error.message}`;
      }
      if (frames) {
        const image = new Image();
        image.onload = () => {
          if (this.source !== source) return;
          this.sheet = { image, ...frames };
          this.show_picked();
        };
        image.src = media_url(frames);
      }
    }
    this.draw();
    this.show_picked();
  }

  look_at(i) {
    const { points } = this;
    if (points.prototype[i]) return { mark: "diamond", fill: "var(--surface)", stroke: "var(--ink)" };
    if (this.colour === "background") {
      const { colour, mark } = look_of(points.background[i]);
      return is_open(mark) ? { mark, fill: "none", stroke: colour } : { mark, fill: colour, opacity: 0.85 };
    }
    const value = points[this.colour]?.[i] ?? null;
    const [low, high] = this.range;
    return { mark: "circle", opacity: 0.85, fill: value === null ? "var(--quiet)" : shade(high > low ? (value - low) / (high - low) : 0.5) };
  }

  draw() {
    const { scatter, points } = this;
    const width = scatter.clientWidth;
    if (!width || !points) return;
    const height = Math.round(Math.min(width, 440));
    scatter.setAttribute("height", height);
    const [x, y] = [extent(points.x), extent(points.y)];
    const fit = (value, [low, high], room) => 12 + ((value - low) / (high - low || 1)) * (room - 24);
    this.places = points.x.map((value, i) => [fit(value, x, width), height - fit(points.y[i], y, height)]);
    this.range = this.colour === "background" ? null : extent(points[this.colour] ?? []);
    const order = points.x.map((_, i) => i).sort((a, b) => points.prototype[a] - points.prototype[b]);
    const marks = order.map((i) => {
      const { mark, ...paint } = this.look_at(i);
      return svg("path", { d: mark_path(mark, ...this.places[i], points.prototype[i] ? 5 : 3), "stroke-width": 1.2, ...paint });
    });
    scatter.replaceChildren(...marks, this.ring);
    scatter.setAttribute("aria-label", `t-SNE of ${points.x.length} latents of ${this.title.textContent}. Arrow keys step through them.`);
    this.show_picked();
    this.draw_legend();
  }

  draw_legend() {
    const { points } = this;
    const prototype = points.prototype.some(Boolean) ? [el("span", { class: "key" }, "◇ prototype")] : [];
    if (this.colour === "background") {
      const used = unique(points.background.filter((_, i) => !points.prototype[i])).slice(0, 12);
      this.legend.replaceChildren(...used.map((b) => el("span", { class: "key" }, swatch({ ...look_of(b), dash: "0 99" }), points.backgrounds[b] || "none")), ...prototype);
      return;
    }
    const [low, high] = this.range;
    const ramp = svg("svg", { width: 120, height: 12, "aria-hidden": "true" });
    for (let i = 0; i < 24; i += 1) ramp.append(svg("rect", { x: i * 5, width: 5.5, height: 12, fill: shade(i / 23) }));
    const known = Number.isFinite(low);
    this.legend.replaceChildren(...(known ? [el("span", { class: "key" }, number_text(low), ramp, number_text(high), ` ${this.colour}`)] : []), ...prototype);
  }

  point(event) {
    if (!this.places) return;
    const rect = this.scatter.getBoundingClientRect();
    const [px, py] = [event.clientX - rect.left, event.clientY - rect.top];
    const far = this.places.map(([x, y]) => Math.hypot(x - px, y - py));
    const [least] = extent(far);
    const nearest = far.indexOf(least);
    if (least < 24 && nearest !== this.picked) this.pick(nearest);
  }

  pick(i) {
    this.picked = i;
    this.show_picked();
  }

  key_down(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.points) return;
    event.preventDefault();
    const count = this.points.x.length;
    this.pick(((this.picked ?? -1) + step + count) % count);
  }

  /** A ring around the point that the reader has picked, what is known of it, and its frame. */
  show_picked() {
    const { points, sheet, picked } = this;
    const [x, y] = this.places?.[picked] ?? [-99, -99];
    set_up(this.ring, { cx: x, cy: y });
    const context = this.frame.getContext("2d");
    context.clearRect(0, 0, 128, 128);
    this.frame.hidden = !sheet;
    if (!points) return;
    if (picked === null || picked === undefined) {
      this.words.textContent = sheet ? "Point at a dot to see its frame." : "Point at a dot to read what it is.";
      return;
    }
    const known = [];
    if (points.prototype[picked]) known.push("prototype");
    if (points.backgrounds[points.background[picked]]) known.push(`background ${points.backgrounds[points.background[picked]]}`);
    for (const name of ["value", "episode", "step"]) {
      const value = points[name]?.[picked] ?? null;
      if (value !== null) known.push(`${name} ${number_text(value)}`);
    }
    this.words.textContent = known.join(", ");
    const frame = points.frame?.[picked] ?? null;
    this.frame.dataset.frame = frame ?? "";
    if (!sheet || frame === null || frame >= sheet.count) return;
    const { image, columns, width, height } = sheet;
    context.imageSmoothingEnabled = false;
    context.drawImage(image, (frame % columns) * width, Math.floor(frame / columns) * height, width, height, 0, 0, 128, 128);
  }
}
