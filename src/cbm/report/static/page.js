// State, filters, and what happens when new numbers arrive.

const FILTERS = [["task", "Task"], ["method", "Method"], ["distraction", "Distraction"], ["split", "Split"], ["seed", "Seed"], ["state", "State"]];
const SECTIONS = [["curves", "Curves", Curves], ["final", "Returns", Final], ["inside", "Inside", Inside], ["embedding", "t-SNE", Embeddings], ["films", "Films", Films], ["pictures", "Galleries", Pictures], ["runs", "Runs", Runs], ["compare", "Differences", Compare], ["left-out", "Left out", LeftOut]];

const page = {
  data: null,
  runs: [],
  shown: [],
  methods: [],
  combined: new Map(), // lines over seeds that have been computed for these numbers
  filters: Object.fromEntries(FILTERS.map(([key]) => [key, new Set()])), // what the reader has hidden
  place: (run) => `${run.task}|${run.distraction}`,
  places() {
    const places = unique(page.shown.map(page.place)).sort(text_order);
    return places.map((place) => page.shown.filter((run) => page.place(run) === place));
  },
  splits(runs) {
    const shown = ["train", "unseen"].filter((split) => !page.filters.split.has(split));
    return shown.filter((split) => runs.some((run) => run.returns[split]));
  },
  look: (method) => look_of(page.methods.indexOf(method)),
  published: (run, split) => page.data.published.filter((cell) => page.place(cell) === page.place(run) && cell.split === split),
  toggle(key, value) {
    if (!page.filters[key].delete(value)) page.filters[key].add(value);
    filtered();
  },
};

function take(data) {
  page.data = data;
  page.runs = data.runs;
  page.combined.clear();
  for (const run of page.runs) {
    run.analysed = run.series.find((series) => "ch_index" in series.values || "state_r2" in series.values) ?? null;
    for (const medium of run.media) medium.run = run;
  }
  page.methods = unique(page.runs.map((run) => run.method)).sort(text_order);
  page.distractions = unique(page.runs.map((run) => run.distraction));
  document.title = `${data.title} – CBM-RL`;
  $("title").textContent = data.title;
  const made = data.made ? `made ${data.made.slice(0, 16).replace("T", " ")} UTC` : "live";
  $("made").textContent = `${made}, cbm-rl ${data.version}`;
  filtered();
}

function filtered() {
  // No run has a `split`: that filter hides panels and rows, not runs.
  page.shown = page.runs.filter((run) => FILTERS.every(([key]) => !page.filters[key].has(run[key])));
  show_states();
  for (const filter of filters) filter.update();
  const [curves, final, ...below] = sections;
  curves.update();
  final.update();
  if (document.documentElement.dataset.ready) finish(below);
  else setTimeout(() => requestAnimationFrame(() => setTimeout(() => finish(below)))); // let the curves appear first
}

function finish(below) {
  for (const section of below) section.update();
  $("contents").replaceChildren(...SECTIONS.filter(([id]) => !$(id).hidden).map(([id, text]) => el("a", { href: `#${id}` }, text)));
  $("announce").textContent = `${page.shown.length} of ${page.runs.length} runs shown`;
  document.documentElement.dataset.ready = "yes";
}

function show_states() {
  const chips = STATES.map((state) => [state, page.runs.filter((run) => run.state === state).length])
    .filter(([, count]) => count)
    .map(([state, count]) => {
      const shown = !page.filters.state.has(state);
      return el("button", { type: "button", class: `badge ${state}`, "aria-pressed": String(shown), title: shown ? "hide these" : "show these", onclick: () => page.toggle("state", state) }, `${STATE_MARKS[state]} ${count} ${state}`);
    });
  const focused = [...$("states").children].indexOf(document.activeElement);
  const unread = page.data.problems.length ? [el("a", { class: "badge failed", href: "#left-out" }, `! ${page.data.problems.length} left out`)] : [];
  $("states").replaceChildren(...chips, ...unread, el("span", { class: "quiet" }, page.runs.length === page.shown.length ? "" : `${page.shown.length} of ${page.runs.length} runs shown`));
  if (focused >= 0) $("states").children[focused]?.focus();
}

/** One filter: a button that opens a list of boxes. */
class Filter {
  constructor(key, title) {
    this.key = key;
    this.title = title;
    this.summary = el("summary");
    this.list = el("div", { class: "choices" });
    const all = el("button", { type: "button", class: "small", onclick: () => this.only(this.values) }, "all");
    const none = el("button", { type: "button", class: "small", onclick: () => this.only([]) }, "none");
    this.root = el("details", { class: "filter", name: "filter", "data-filter": key }, this.summary, el("div", { class: "popup", role: "group", "aria-label": title }, el("div", { class: "tools" }, all, none), this.list));
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.root.open = false;
      this.summary.focus();
    });
  }

  /** Shows the values that there are now, and which of them the reader has hidden. */
  update() {
    const found = page.runs.flatMap((run) => (this.key === "split" ? Object.keys(run.returns) : run[this.key]));
    const values = unique(found).sort(text_order);
    if (JSON.stringify(this.values) !== JSON.stringify(values)) {
      this.values = values;
      this.boxes = values.map((value) => {
        const box = el("input", { type: "checkbox", onchange: () => page.toggle(this.key, value) });
        const only = el("button", { type: "button", class: "small", "aria-label": `only ${value}`, onclick: () => this.only([value]) }, "only");
        const label = el("label", {}, box, el("span", {}, this.name(value)));
        return { value, box, row: el("div", { class: "choice" }, label, only) };
      });
      this.list.replaceChildren(...this.boxes.map((one) => one.row));
    }
    this.root.hidden = values.length < 2;
    const out = page.filters[this.key];
    for (const { box, value } of this.boxes) box.checked = !out.has(value);
    const kept = values.filter((value) => !out.has(value));
    const what = kept.length === values.length ? "all" : kept.length === 1 ? this.name(kept[0]) : `${kept.length} of ${values.length}`;
    this.summary.textContent = `${this.title}: ${what}`;
    this.root.classList.toggle("active", kept.length < values.length);
  }

  name(value) {
    return this.key === "split" ? split_text(value) : String(value);
  }

  only(values) {
    page.filters[this.key] = new Set(this.values.filter((value) => !values.includes(value)));
    filtered();
  }
}

const THEMES = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" };

function set_theme(theme) {
  document.documentElement.dataset.theme = theme;
  set_up($("theme"), { "aria-label": `Colours: ${theme}. Change` }).textContent = THEMES[theme];
  try {
    localStorage.setItem("cbm-theme", theme);
  } catch {
    // a page from a file may have no storage
  }
}

function remembered_theme() {
  try {
    const theme = localStorage.getItem("cbm-theme");
    return theme in THEMES ? theme : "auto";
  } catch {
    return "auto";
  }
}

/** Asks the server for new numbers, again and again while the page is visible. */
async function follow() {
  let tag = null;
  for (;;) {
    if (!document.hidden) {
      try {
        const answer = await fetch("data.json", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
        if (answer.status === 200) {
          tag = answer.headers.get("ETag");
          const data = await answer.json();
          const { scrollX, scrollY } = window;
          take(data);
          window.scrollTo({ left: scrollX, top: scrollY, behavior: "instant" });
        } else if (answer.status !== 304) throw new Error(`the server answered ${answer.status}`);
        document.documentElement.dataset.connection = "live";
        $("made").classList.remove("lost");
      } catch {
        document.documentElement.dataset.connection = "lost";
        $("made").classList.add("lost");
        $("made").textContent = "the server does not answer; these are its last numbers";
        tag = null;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 2500));
  }
}

document.querySelector("main").append(...SECTIONS.map(([id]) => el("section", { id })));
const sections = SECTIONS.map(([, , Section]) => new Section());
const filters = FILTERS.map(([key, title]) => new Filter(key, title));
$("filters").append(...filters.map((filter) => filter.root));
set_theme(remembered_theme());
$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  set_theme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});
document.addEventListener("click", (event) => {
  for (const filter of filters) if (!filter.root.contains(event.target)) filter.root.open = false;
});

const first = JSON.parse($("data").textContent);
if (first.live) follow();
else take(first);
