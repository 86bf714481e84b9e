// Elements, numbers as text, and the media that the page contains or its server has.

const $ = (id) => document.getElementById(id);

const el = (tag, props, ...children) => set_up(document.createElement(tag), props, ...children);
const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, props, ...children) => set_up(document.createElementNS(SVG, tag), props, ...children);

/** Gives an element attributes, listeners and children. Strings become text nodes, never markup. */
function set_up(node, props = {}, ...children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const unique = (values) => [...new Set(values)];
const text_order = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });

/** The lowest and the highest of some values; those that are no numbers do not count. */
const extent = (values) => {
  const known = values.filter(Number.isFinite);
  return [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)];
};

/** 12000 -> "12K". */
const steps_text = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 }).format;

function number_text(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return String(+value.toPrecision(3));
}

const split_text = (split) => ({ train: "training videos", unseen: "unseen videos" })[split] ?? split;

/** A setting as it stands in config.json. */
const setting_text = (value) =>
  value === undefined ? "not set" : typeof value === "string" ? value : JSON.stringify(value).replaceAll(",", ", ");

/** Where an img or a video finds a medium: an address of the server, or a blob from the page itself. */
function media_url(medium) {
  if (!medium.url) {
    const packed = atob($(medium.embed).textContent);
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
    medium.url = URL.createObjectURL(new Blob([bytes], { type: medium.type }));
  }
  return medium.url;
}

/** A medium that is JSON. */
async function media_json(medium) {
  if (!medium.url) return JSON.parse($(medium.embed).textContent);
  const answer = await fetch(medium.url);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

/** Media come after the script in the file, so the page is drawn before all of them have been read. */
function when_here(medium, act) {
  if (medium.url || $(medium.embed) || document.readyState !== "loading") act();
  else document.addEventListener("DOMContentLoaded", act, { once: true });
}

/** Calls `show` once the element comes near the window. */
function when_near(node, show) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      show();
    },
    { rootMargin: "300px" },
  );
  observer.observe(node);
}

/** Gives an img or a video its source once it comes near the window. */
function load_when_near(node, medium) {
  when_near(node, () => {
    if (medium.poster) node.poster = medium.poster;
    when_here(medium, () => {
      node.src = media_url(medium);
    });
  });
}

function save_csv(name, rows) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = rows.map((cells) => `${cells.map((cell) => quoted(String(cell ?? ""))).join(",")}\n`);
  const link = el("a", { href: URL.createObjectURL(new Blob([lines.join("")], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Puts the wanted children into a parent, moving and removing as little as possible, so that films keep playing. */
function keep_children(parent, wanted) {
  const set = new Set(wanted);
  for (const child of [...parent.children]) if (!set.has(child)) child.remove();
  wanted.forEach((child, i) => {
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
}
