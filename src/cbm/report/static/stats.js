// Many seeds as one line: the centre and an interval at each step.

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Standard deviation over seeds, of a sample. */
function deviation(values) {
  if (values.length < 2) return null;
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1));
}

/** Interquartile mean: without the lowest and the highest quarter (whole runs, as rliable and scipy's trim_mean do). */
function iqm(values) {
  const cut = Math.floor(values.length / 4);
  if (!cut) return mean(values);
  return mean([...values].sort((a, b) => a - b).slice(cut, values.length - cut));
}

/** A random generator with a seed: the same page shows the same intervals each time. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const RESAMPLES = 1000;
const draws = new Map();

/** Indices of the resamples of n seeds, drawn once. */
function resamples(n) {
  if (!draws.has(n)) {
    const random = generator(2023 + n);
    draws.set(n, Uint16Array.from({ length: RESAMPLES * n }, () => Math.floor(random() * n)));
  }
  return draws.get(n);
}

/** 95 % percentile bootstrap over seeds, of the mean or of the interquartile mean. */
function bootstrap(values, centre) {
  const n = values.length;
  if (n < 2) return [null, null];
  const drawn = resamples(n);
  const found = new Float64Array(RESAMPLES);
  const sample = new Array(n);
  for (let r = 0; r < RESAMPLES; r += 1) {
    for (let i = 0; i < n; i += 1) sample[i] = values[drawn[r * n + i]];
    found[r] = centre(sample);
  }
  found.sort();
  return [found[Math.round(0.025 * (RESAMPLES - 1))], found[Math.round(0.975 * (RESAMPLES - 1))]];
}

/** The value of a curve at a step: its own, or on the line between its neighbours; null outside of it. */
function value_at({ steps, values }, step) {
  const i = steps.findLastIndex((own) => own <= step);
  if (steps[i] === step) return values[i];
  if (i < 0 || i === steps.length - 1) return null;
  const share = (step - steps[i]) / (steps[i + 1] - steps[i]);
  return values[i] + share * (values[i + 1] - values[i]);
}

/** Curves of one setting as one: steps, centre, interval, and how many seeds reach each step. */
function combine(curves, how) {
  const steps = unique(curves.flatMap((curve) => curve.steps)).sort((a, b) => a - b);
  const line = { steps, values: [], low: [], high: [], n: [], of: curves.length };
  const centre = how === "iqm" ? iqm : mean;
  for (const step of steps) {
    const values = curves.map((curve) => value_at(curve, step)).filter((value) => value !== null);
    const middle = centre(values);
    const spread = deviation(values);
    const around = spread === null ? [null, null] : [middle - spread, middle + spread];
    const [low, high] = how === "std" ? around : bootstrap(values, centre);
    line.values.push(middle);
    line.low.push(low);
    line.high.push(high);
    line.n.push(values.length);
  }
  return line;
}
