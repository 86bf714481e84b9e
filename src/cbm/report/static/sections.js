// The sections of the page. Each is built once; `update()` then shows the current content of `page` (page.js).

const STATES = ["running", "failed", "stopped", "complete"];
const STATE_MARKS = { running: "▶", complete: "✓", stopped: "■", failed: "✕" };

const state_badge = (state) => el("span", { class: `badge ${state}` }, `${STATE_MARKS[state] ?? ""} ${state}`);
const run_text = (run) => `${run.name}: ${run.method}, ${run.task}, ${run.distraction}, seed ${run.seed}`;
const distraction_text = (distraction) => (distraction === "none" ? "no distraction" : distraction);
const last_return = (run, split) => run.returns[split]?.mean.at(-1) ?? null;
const place_text = (run) => (page.distractions.length > 1 ? `${run.task}, ${distraction_text(run.distraction)}` : run.task);

function heading(section, title, ...tools) {
  section.append(el("div", { class: "section-head" }, el("h2", {}, title), el("div", { class: "tools" }, ...tools)));
}

/** A select whose choices may change while the reader's choice stays. */
function chooser(name, on_change) {
  const select = el("select", { "aria-label": name, onchange: () => on_change() });
  const set = (choices) => {
    const text = JSON.stringify(choices);
    if (select.dataset.choices === text) return;
    const before = select.dataset.choices === undefined ? null : select.value;
    select.dataset.choices = text;
    const groups = Object.entries(Object.groupBy(choices, (choice) => choice.group ?? ""));
    const nodes = groups.flatMap(([label, own]) => {
      const options = own.map((choice) => el("option", { value: choice.value }, choice.text));
      return label ? [el("optgroup", { label }, ...options)] : options;
    });
    select.replaceChildren(...nodes);
    if (choices.some((choice) => choice.value === before)) select.value = before;
  };
  return { root: el("label", { class: "choose" }, el("span", {}, name), select), select, set };
}

const wrap_table = (table, name) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, table);
const setting_row = (key, values, props) =>
  el("tr", props, el("th", { scope: "row" }, key), ...values.map((value) => el("td", {}, setting_text(value))));

/** Lines of the runs of one panel, by method. `curve(run)` gives steps and values, or null; `what` is its name. */
function lines_of(runs, how, what, curve) {
  const lines = [];
  for (const method of page.methods) {
    const look = page.look(method);
    const own = runs.filter((run) => run.method === method).map((run) => ({ run, curve: curve(run) }));
    const curves = own.filter((one) => one.curve && one.curve.steps.length);
    if (!curves.length) continue;
    if (how === "seeds")
      lines.push(...curves.map(({ run, curve: c }) => ({ name: `${method}, seed ${run.seed}`, look, ...c, thin: true, method })));
    else {
      const key = [what, how, ...curves.map((one) => one.run.id)].join(" "); // intervals are slow to compute; filters must not be
      if (!page.combined.has(key)) page.combined.set(key, combine(curves.map((one) => one.curve), how));
      lines.push({ name: method, look, ...page.combined.get(key), method });
    }
  }
  return lines;
}

const HOW = [
  { value: "mean", text: "mean, 95 % bootstrap interval" },
  { value: "iqm", text: "interquartile mean, 95 % bootstrap interval" },
  { value: "std", text: "mean ± standard deviation" },
  { value: "seeds", text: "every run" },
];

/** What the two sections with charts have in common: how seeds are combined, a legend that filters, reset, CSV. */
class ChartSection {
  constructor(id, title, ...tools) {
    this.section = $(id);
    this.how = chooser("Seeds", () => this.update());
    this.how.set(HOW);
    this.reset = el("button", { type: "button", hidden: true, onclick: () => this.chart.reset() }, "Reset zoom");
    this.csv = el("button", { type: "button", onclick: () => this.save(), title: "the numbers behind these panels" }, "CSV");
    heading(this.section, title, ...tools, this.how.root, this.reset, this.csv);
    this.help = el("p", { class: "quiet" });
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Methods" });
    this.section.append(this.help, this.legend);
    this.chart = new Chart(this.section, (zoomed) => {
      this.reset.hidden = !zoomed;
    });
    this.empty = el("p", { class: "note" });
    this.section.append(this.empty);
  }

  update() {
    const panels = this.panels();
    const used = unique(panels.flatMap((panel) => panel.lines.map((line) => line.method)));
    const known = page.methods.filter((method) => used.includes(method) || page.filters.method.has(method));
    this.legend.replaceChildren(...known.map((method) => this.legend_key(method)));
    this.empty.hidden = panels.length > 0;
    this.csv.hidden = !panels.length;
    this.chart.set(panels);
  }

  save() {
    const rows = [["panel", "line", "env_step", "value", "low", "high", "runs"]];
    for (const panel of this.chart.data)
      for (const line of panel.lines)
        line.steps.forEach((step, i) => rows.push([panel.title, line.name, step, line.values[i], line.low?.[i], line.high?.[i], line.n?.[i]]));
    save_csv(`${this.section.id}.csv`, rows);
  }

  legend_key(method) {
    const shown = !page.filters.method.has(method);
    const toggle = () => {
      page.toggle("method", method);
      [...this.legend.children].find((node) => node.dataset.method === method)?.focus();
    };
    return el("button", { type: "button", class: "key", "aria-pressed": String(shown), "data-method": method, onclick: toggle }, swatch(page.look(method)), method);
  }
}

class Curves extends ChartSection {
  constructor() {
    const paper = el("input", { type: "checkbox", onchange: () => this.update() });
    super("curves", "Learning curves", el("label", { class: "choose" }, paper, el("span", {}, "the paper's numbers")));
    this.paper = paper;
    this.help.textContent = "Mean return of an evaluation. Zoom by dragging, pinching or Ctrl + wheel. After a click on a panel, the wheel zooms and arrows move. A double click resets.";
    this.empty.textContent = "No evaluation to draw: no run passes the filters, or none has been evaluated yet.";
  }

  panels() {
    const how = this.how.select.value;
    const panels = [];
    for (const here of page.places()) {
      const made = page.splits(here).map((split) => {
        const lines = lines_of(here, how, `return ${split}`, (run) => {
          const found = run.returns[split];
          return found && { steps: found.steps, values: found.mean };
        });
        const random = here.map((run) => run.random).filter((value) => value !== null);
        const rules = random.length ? [{ value: mean(random), name: "random actions" }] : [];
        if (this.paper.checked)
          for (const cell of page.published(here[0], split)) {
            const own = here.find((run) => run.agent === cell.agent);
            if (own) rules.push({ value: cell.mean, name: `${cell.agent} at 500K: ${paper_text(cell)}`, look: page.look(own.method) });
          }
        const only = here.every((run) => !run.returns.unseen); // no videos at all: nothing to tell apart
        const title = `${place_text(here[0])}${only ? "" : `, ${split_text(split)}`}`;
        return { key: `${page.place(here[0])}|${split}`, title, label: "mean return", lines, rules, zero: true };
      });
      const filled = made.filter((panel) => panel.lines.length);
      for (const panel of filled) panel.scale = filled.flatMap((one) => one.lines); // the same range for both sets of videos
      panels.push(...filled);
    }
    return panels;
  }
}

class Inside extends ChartSection {
  constructor() {
    const measure = chooser("Measure", () => {
      this.chart.y.clear();
      this.update();
    });
    super("inside", "Inside the agents", measure.root);
    this.measure = measure;
    this.empty.textContent = "Nothing to draw for these runs. Clusters and probes come from cbm analyze DIR.";
  }

  update() {
    const names = unique(page.runs.flatMap((run) => run.series.flatMap((series) => Object.keys(series.values))));
    const hidden = new Set(Object.values(page.data.references));
    const known = Object.keys(page.data.measures);
    const rank = (name) => (known.includes(name) ? known.indexOf(name) : known.length);
    const analysed = new Set(page.runs.flatMap((run) => (run.analysed ? Object.keys(run.analysed.values) : [])));
    this.measure.set(
      names
        .filter((name) => !hidden.has(name))
        .sort((a, b) => rank(a) - rank(b) || text_order(a, b))
        .map((name) => ({ value: name, text: page.data.measures[name]?.label ?? name, group: analysed.has(name) ? "Analyses" : "Training" }))
        .sort((a, b) => text_order(a.group, b.group)),
    );
    this.section.hidden = !names.length;
    if (names.length) super.update();
  }

  panels() {
    const name = this.measure.select.value;
    const about = page.data.measures[name];
    const other = unique(page.shown.filter((run) => run.clusters === "kmeans" && run.analysed).map((run) => run.method));
    const of_clusters = ["ch_index", "ch_index_standardised", "same_cluster", "clusters_used", "usage_entropy"].includes(name);
    const kmeans = of_clusters && other.length ? ` Without prototypes (${other.join(", ")}), clusters come from k-means on the latents.` : "";
    this.help.textContent = `${about?.help ?? ""}${kmeans}`;
    const panels = [];
    for (const here of page.places()) {
      const lines = lines_of(here, this.how.select.value, name, (run) => series_of(run, name));
      if (!lines.length) continue;
      const reference = page.data.references[name];
      const chance = here.flatMap((run) => (reference ? series_of(run, reference)?.values.slice(-1) ?? [] : []));
      const rules = chance.length ? [{ value: mean(chance), name: "chance" }] : [];
      panels.push({ key: page.place(here[0]), title: place_text(here[0]), label: about?.label ?? name, lines, rules });
    }
    return panels;
  }
}

function series_of(run, name) {
  const found = run.series.find((series) => series.values[name]);
  if (!found) return null;
  const kept = found.steps.map((_, i) => i).filter((i) => found.values[name][i] !== null);
  return { steps: kept.map((i) => found.steps[i]), values: kept.map((i) => found.values[name][i]) };
}

/** "paper 360 ± 36", with the row of its table if the source names one. */
function paper_text(cell) {
  const row = /row "(.+)"/.exec(cell.source)?.[1];
  return `paper${row ? `, ${row}:` : ""} ${cell.mean}${cell.std === null ? "" : ` ± ${cell.std}`}`;
}

class Final {
  constructor() {
    this.section = $("final");
    this.at = chooser("At", () => this.update());
    this.centre = chooser("Seeds", () => this.update());
    this.centre.set([{ value: "mean", text: "mean ± standard deviation" }, { value: "iqm", text: "interquartile mean [95 %]" }]);
    const csv = el("button", { type: "button", onclick: () => save_csv("final.csv", this.csv) }, "CSV");
    heading(this.section, "Returns", this.at.root, this.centre.root, csv);
    this.help = el("p", { class: "quiet" }, "Mean return of one evaluation, over runs (seeds); n is how many. ", el("i", {}, "paper"), ": what the paper reports after 500K steps, five seeds. *: some of these runs are not complete. Bold: the highest in a row.");
    this.table = el("table", { class: "numbers" });
    this.section.append(this.help, wrap_table(this.table, "Returns by task and method"));
  }

  update() {
    const steps = unique(page.runs.flatMap((run) => Object.values(run.returns).flatMap((found) => found.steps))).sort((a, b) => b - a);
    this.at.set([{ value: "last", text: "the last evaluation" }, ...steps.slice(0, 60).map((step) => ({ value: String(step), text: `${steps_text(step)} steps` }))]);
    const methods = page.methods.filter((method) => page.shown.some((run) => run.method === method));
    const rows = page.places().flatMap((here) => page.splits(here).map((split) => this.row(here, split, methods)));
    this.section.hidden = !rows.length;
    this.csv = [["task", "distraction", "split", "method", "mean", "std", "iqm", "runs", "paper", "paper_std"], ...rows.flatMap((row) => row.csv)];
    const head = el("tr", {}, el("th", { scope: "col" }, "task"), el("th", { scope: "col" }, "split"), ...methods.map((method) => el("th", { scope: "col", class: "method" }, swatch(page.look(method)), el("br"), method)));
    this.table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows.map((row) => row.node)));
  }

  row(here, split, methods) {
    const iqms = this.centre.select.value === "iqm";
    const cells = methods.map((method) => {
      const runs = here.filter((run) => run.method === method && run.returns[split]?.steps.length);
      const known = runs.map((run) => ({ run, value: this.value(run.returns[split]) })).filter((one) => one.value !== null);
      const done = known.filter(({ run }) => run.state === "complete");
      const found = this.at.select.value === "last" && done.length ? done : known; // compare finished runs with finished runs
      const agent = here.find((run) => run.method === method)?.agent;
      return { method, found, beside: known.length - found.length, values: found.map((one) => one.value), paper: page.published(here[0], split).filter((cell) => cell.agent === agent) };
    });
    const centre = iqms ? iqm : mean;
    const best = Math.max(...cells.filter((cell) => cell.values.length).map((cell) => centre(cell.values)));
    const several = cells.filter((cell) => cell.values.length).length > 1;
    const nodes = cells.map((cell) => {
      const { values, paper } = cell;
      if (!values.length && !paper.length) return el("td", { class: "none" }, "–");
      const early = cell.found.some(({ run }) => run.state !== "complete");
      const spread = iqms ? bootstrap(values, iqm) : deviation(values);
      const short = (value) => (best >= 10 ? value.toFixed(0) : number_text(value));
      const around = iqms ? (spread[0] === null ? "" : ` [${short(spread[0])}, ${short(spread[1])}]`) : spread === null ? "" : ` ± ${short(spread)}`;
      const main = values.length ? `${short(centre(values))}${around}${early ? " *" : ""}` : "–";
      return el(
        "td",
        {},
        el(several && values.length && centre(values) === best ? "b" : "span", {}, main),
        values.length ? el("small", {}, ` n=${values.length}`) : null,
        cell.beside ? el("small", {}, `, ${cell.beside} more not complete`) : null,
        ...paper.map((one) => el("div", { class: "paper", title: one.source }, paper_text(one))),
      );
    });
    const node = el("tr", {}, el("th", { scope: "row" }, place_text(here[0])), el("td", { class: "words" }, here.some((run) => run.returns.unseen) ? split : "–"), ...nodes);
    const csv = cells.filter((cell) => cell.values.length).map(({ method, values, paper }) => [here[0].task, here[0].distraction, split, method, mean(values), deviation(values), iqm(values), values.length, paper[0]?.mean, paper[0]?.std]);
    return { node, csv };
  }

  value(found) {
    const at = this.at.select.value;
    if (at === "last") return found.mean.at(-1);
    const i = found.steps.indexOf(Number(at));
    return i < 0 ? null : found.mean[i];
  }
}

class Embeddings {
  constructor() {
    this.section = $("embedding");
    this.first = chooser("Run", () => this.update());
    this.second = chooser("beside", () => this.update());
    this.colour = chooser("Colour", () => this.update());
    heading(this.section, "t-SNE of latents", this.first.root, this.second.root, this.colour.root);
    this.section.append(el("p", { class: "quiet" }, "Each dot is an observation. Where the background does not matter, background colours are mixed and values form regions."));
    this.pair = [new Embedding(), new Embedding()];
    this.section.append(el("div", { class: "embeddings" }, this.pair[0].root, this.pair[1].root));
  }

  update() {
    const usable = page.shown.filter((run) => run.media.some((medium) => medium.kind === "tsne" && !medium.left_out));
    this.section.hidden = !usable.length;
    if (!usable.length) return;
    const choices = usable.map((run) => ({ value: run.id, text: run_text(run) }));
    const fresh = !this.first.select.options.length;
    this.first.set(choices);
    this.second.set([{ value: "", text: "nothing" }, ...choices]);
    const other = usable.find((run) => run.task === usable[0].task && run.method !== usable[0].method);
    if (fresh && other) this.second.select.value = other.id; // two methods side by side say more than one does
    this.second.root.hidden = usable.length < 2;
    this.colour.set([{ value: "value", text: "state value" }, { value: "background", text: "background" }, { value: "step", text: "step of the episode" }]);
    this.chosen = [this.first, this.second].map((choice) => usable.find((run) => run.id === choice.select.value));
    this.chosen.forEach((run, i) => {
      this.pair[i].root.hidden = !run;
    });
    if (this.started) this.show();
    else when_near(this.section, () => this.show());
  }

  show() {
    this.started = true;
    this.chosen.forEach((run, i) => {
      const last = run?.media.findLast((medium) => medium.kind === "tsne" || (medium.kind === "frames" && medium.embed));
      if (run) when_here(last, () => this.pair[i].show(run, this.colour.select.value));
    });
  }
}

/** Cards of media that stay in place while the page is updated. */
class Cards {
  constructor(id, title, ...tools) {
    this.section = $(id);
    this.cards = new Map();
    this.grid = el("div", { class: "cards" });
    this.more = el("button", { type: "button", onclick: () => this.show(this.limit + 48) });
    this.limit = 24;
    heading(this.section, title, ...tools);
    this.section.append(this.grid, this.more);
  }

  show(limit) {
    this.limit = limit;
    this.update();
  }

  /** Fills the grid with media, each on the card that `make` makes of it. */
  fill(found, make) {
    this.section.hidden = !found.length;
    const shown = found.slice(0, this.limit);
    const nodes = shown.map((medium) => {
      const key = `${medium.run.id} ${medium.kind} ${medium.name} ${medium.embed ?? medium.url}`;
      if (!this.cards.has(key)) this.cards.set(key, make(medium));
      return this.cards.get(key);
    });
    keep_children(this.grid, nodes);
    this.more.hidden = shown.length === found.length;
    this.more.textContent = `Show more (${found.length - shown.length} left)`;
  }

  found(kind) {
    const order = (a, b) => text_order(page.place(a), page.place(b)) || page.methods.indexOf(a.method) - page.methods.indexOf(b.method) || a.seed - b.seed;
    const media = [...page.shown].sort(order).flatMap((run) => run.media);
    return media.filter((medium) => medium.kind === kind && !medium.left_out);
  }
}

function card(run, node, what) {
  const place = `${run.task}, ${distraction_text(run.distraction)}, seed ${run.seed}`;
  const words = [el("b", {}, run.method), el("br"), place, el("span", { class: "quiet" }, `, ${what}`)];
  return el("figure", { class: "card" }, node, el("figcaption", {}, ...words));
}

class Films extends Cards {
  constructor() {
    const all = (act) => () => this.grid.querySelectorAll("video").forEach(act);
    const play = el("button", { type: "button", onclick: all((film) => film.play().catch(() => {})) }, "Play all");
    const pause = el("button", { type: "button", onclick: all((film) => film.pause()) }, "Pause all");
    super("films", "Films", play, pause);
  }

  update() {
    this.fill(this.found("film"), (film) => {
      const video = el("video", { controls: true, loop: true, playsinline: true, preload: "metadata", "aria-label": `Film of ${run_text(film.run)}` });
      video.muted = true;
      load_when_near(video, film);
      return card(film.run, video, film.step === undefined ? film.name : `at ${steps_text(film.step)} steps`);
    });
  }
}

class Pictures extends Cards {
  constructor() {
    const kind = chooser("Show", () => this.show(24));
    super("pictures", "Galleries and figures", kind.root);
    this.kind = kind;
  }

  update() {
    const found = this.found("figure");
    const captions = Object.fromEntries(found.map((figure) => [figure.name, figure.caption]));
    const kinds = Object.entries(captions).map(([value, text]) => ({ value, text }));
    if (found.length) this.kind.set([...kinds, { value: "", text: "everything" }]);
    const wanted = this.kind.select.value;
    const chosen = found.filter((figure) => !(wanted in captions) || figure.name === wanted);
    this.fill(chosen, (figure) => {
      const text = run_text(figure.run);
      const image = el("img", { alt: `${figure.caption} of ${text}`, decoding: "async" });
      load_when_near(image, figure);
      const open = el("button", { type: "button", class: "picture", title: "larger", onclick: () => view(image, `${figure.caption}: ${text}`) }, image);
      return card(figure.run, open, figure.caption);
    });
  }
}

/** A picture over the whole window. */
function view(image, caption) {
  const viewer = $("viewer");
  const close = el("button", { type: "button", onclick: () => viewer.close() }, "Close");
  viewer.replaceChildren(el("img", { src: image.src, alt: image.alt }), el("p", {}, caption), close);
  viewer.showModal();
}

class Runs {
  constructor() {
    this.section = $("runs");
    this.sort = { by: "state", down: false };
    this.open = new Set();
    heading(this.section, "Runs");
    this.table = el("table", { class: "runs" });
    this.section.append(wrap_table(this.table, "Runs"));
    this.columns = [
      ["name", "run"],
      ["state", "state", (run) => STATES.indexOf(run.state)],
      ["task", "task"],
      ["method", "method"],
      ["distraction", "distraction"],
      ["seed", "seed"],
      ["step", "steps"],
      ["train", "return, training videos", (run) => last_return(run, "train")],
      ["unseen", "unseen videos", (run) => last_return(run, "unseen")],
    ];
  }

  update() {
    const value = this.columns.find(([key]) => key === this.sort.by)[2] ?? ((run) => run[this.sort.by]);
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const apart = (typeof x === "number" ? x - y : text_order(x, y)) * (this.sort.down ? -1 : 1);
      return apart || text_order(a.name, b.name);
    };
    const head = this.columns.map(([key, title]) => {
      const sorted = this.sort.by === key;
      const mark = sorted ? (this.sort.down ? " ▼" : " ▲") : "";
      const press = () => {
        this.sort = { by: key, down: sorted ? !this.sort.down : ["step", "train", "unseen"].includes(key) };
        this.update();
        this.table.querySelector(`[data-column="${key}"]`).focus();
      };
      return el("th", { scope: "col", "aria-sort": sorted ? (this.sort.down ? "descending" : "ascending") : null }, el("button", { type: "button", class: "plain", "data-column": key, onclick: press }, title + mark));
    });
    const focused = document.activeElement?.dataset?.run;
    const rows = [...page.shown].sort(order).flatMap((run) => [this.row(run), ...(this.open.has(run.id) ? [this.details(run)] : [])]);
    this.table.replaceChildren(el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
    if (focused) this.table.querySelector(`[data-run="${focused}"]`)?.focus();
  }

  row(run) {
    const open = this.open.has(run.id);
    const press = () => {
      if (!this.open.delete(run.id)) this.open.add(run.id);
      this.update();
    };
    const share = run.total ? Math.min(1, run.step / run.total) : 0;
    const bar = el("progress", { max: 1, value: share, "aria-label": `${Math.round(share * 100)} %` });
    const why = run.reason && run.state !== "complete" ? el("div", { class: "why" }, run.reason) : null;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "plain name", "data-run": run.id, "aria-expanded": String(open), onclick: press }, `${open ? "▾" : "▸"} ${run.name}`)),
      el("td", {}, state_badge(run.state), why),
      ...["task", "method", "distraction"].map((key) => el("td", {}, run[key])),
      el("td", { class: "right" }, String(run.seed)),
      el("td", {}, bar, el("div", { class: "steps" }, `${steps_text(run.step)} of ${steps_text(run.total)}`)),
      ...["train", "unseen"].map((split) => el("td", { class: "right" }, number_text(last_return(run, split)))),
    );
  }

  details(run) {
    const settings = (values) => {
      const rows = Object.entries(values).map(([key, value]) => setting_row(key, [value]));
      return el("table", { class: "settings" }, el("tbody", {}, ...rows));
    };
    const { command, ...provenance } = run.provenance;
    const inside = el(
      "div",
      { class: "details" },
      el("p", {}, `Folder: ${run.path}`),
      Array.isArray(command) ? el("p", {}, "Command: ", el("code", {}, command.join(" "))) : null,
      el("h3", {}, "Configuration"),
      settings(run.config),
      Object.keys(run.provenance).length ? el("h3", {}, "Where it came from") : null,
      settings(provenance),
    );
    return el("tr", { class: "open" }, el("td", { colspan: this.columns.length }, inside));
  }
}

class Compare {
  constructor() {
    this.section = $("compare");
    this.first = chooser("First", () => this.update());
    this.second = chooser("Second", () => this.update());
    this.all = el("input", { type: "checkbox", onchange: () => this.update() });
    heading(this.section, "What differs between two runs", this.first.root, this.second.root, el("label", { class: "choose" }, this.all, el("span", {}, "equal settings too")));
    this.note = el("p", { class: "quiet" });
    this.table = el("table", { class: "settings differences" });
    this.section.append(this.note, wrap_table(this.table, "Settings of two runs"));
  }

  update() {
    this.section.hidden = page.runs.length < 2;
    if (this.section.hidden) return;
    const fresh = !this.second.select.options.length;
    const choices = page.runs.map((run) => ({ value: run.id, text: run_text(run) }));
    this.first.set(choices);
    this.second.set(choices);
    if (fresh) this.second.select.value = choices[1].value;
    const [a, b] = [this.first, this.second].map((choice) => page.runs.find((run) => run.id === choice.select.value) ?? page.runs[0]);
    const tree = (run) => ({ ...run.config, ...Object.fromEntries(Object.entries(run.provenance).map(([key, value]) => [`provenance.${key}`, value])) });
    const [left, right] = [tree(a), tree(b)];
    const keys = unique([...Object.keys(left), ...Object.keys(right)]).filter((key) => !["provenance.created", "provenance.command"].includes(key));
    const differs = (key) => JSON.stringify(left[key]) !== JSON.stringify(right[key]);
    const different = keys.filter(differs);
    this.note.textContent = different.length ? `${different.length} of ${keys.length} settings and versions differ.` : `All ${keys.length} settings and versions are equal.`;
    const shown = this.all.checked ? keys : different;
    const rows = shown.map((key) => setting_row(key, [left[key], right[key]], { class: differs(key) ? "differs" : null }));
    const head = ["setting", a.name, b.name].map((name) => el("th", { scope: "col" }, name));
    this.table.replaceChildren(el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  }
}

class LeftOut {
  constructor() {
    this.section = $("left-out");
    heading(this.section, "Left out");
    this.holder = el("div");
    this.section.append(this.holder);
  }

  update() {
    const { problems } = page.data;
    const media = page.runs.flatMap((run) => run.media).filter((medium) => medium.left_out);
    this.section.hidden = !problems.length && !media.length;
    const list = (entries) => el("ul", { class: "problems" }, ...entries.map(([name, what]) => el("li", {}, el("code", {}, name), `: ${what}`)));
    this.holder.replaceChildren();
    if (problems.length) {
      const count = `${problems.length} ${problems.length === 1 ? "thing" : "things"}`;
      this.holder.append(el("p", {}, `${count} could not be read. Everything else is shown.`), list(problems.map(({ path, what }) => [path, what])));
    }
    if (media.length) {
      const names = media.map((medium) => [medium.run.name, `${medium.caption ?? medium.kind} ${medium.name}`]);
      const why = "are not in this file, to keep it small; the best run of each setting had priority. cbm watch shows all of them.";
      this.holder.append(el("p", {}, `${media.length} films and pictures ${why}`), el("details", {}, el("summary", {}, "Which"), list(names)));
    }
  }
}
