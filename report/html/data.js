// data.js: reads the data that stands in the page (report/pagedata.c says what
// it holds) and makes rows and the tree of it.

import {plain} from "./units.js";

export const COUNTERS =
  ["alloc", "blocks", "freed", "live", "live_blocks", "peak", "young"];

export async function readData() {
  const text = atob(document.getElementById("data").textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++)
    bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream()
    .pipeThrough(new DecompressionStream("deflate-raw"));
  return makeModel(JSON.parse(await new Response(stream).text()));
}

// The figures of row i, of one run; zeros where it has none.
function figures(columns, i) {
  const out = {};
  if (columns)
    for (const key in columns)
      out[key] = columns[key][i];
  return out;
}

function stateOf(runs, isDiff) {
  return !isDiff || runs === 3 ? "" : runs === 1 ? "new" : "gone";
}

function place(source, line) {
  return line > 0 ? `${source}:${line}` : source;
}

// What both kinds of rows have; a figure per call is of what calls are of.
function finishRow(row, seconds, totals, isFunction) {
  for (const side of ["now", "base"]) {
    const v = row[side];
    if (v.alloc === undefined)
      continue;
    const k = side === "now" ? 0 : 1;
    v.rate = seconds[k] > 0 ? v.alloc / seconds[k] : 0;
    v.per_call = v.calls > 0 ? (isFunction ? v.total : v.alloc) / v.calls : 0;
    v.share = totals[k] > 0 ? v.alloc / totals[k] : 0;
    v.young_share = v.alloc > 0 ? v.young / v.alloc : 0;
  }
  row.key = `${row.name}\n${row.group}\n${row.where}`.toLowerCase();
  row.nameKey = row.name.toLowerCase();
  row.groupKey = row.group.toLowerCase();
  row.whereKey = row.where.toLowerCase();
  return row;
}

const hasFigures = v => v && (v.alloc || v.blocks || v.freed || v.live ||
                              v.peak || v.total || v.calls);

function functionRows(raw, texts, seconds, totals, isDiff) {
  const f = raw.funcs;
  const rows = [];
  for (let i = 0; i < f.name.length; i++) {
    const row = {
      index: i, isFunction: true, state: stateOf(f.in[i], isDiff),
      name: texts[f.name[i]], group: texts[f.group[i]] || "[host]",
      source: f.source[i], line: f.line[i],
      where: place(texts[f.source[i]], f.line[i]),
      now: figures(f.now, i), base: figures(f.base, i),
    };
    if (hasFigures(row.now) || hasFigures(row.base))
      rows.push(finishRow(row, seconds, totals, true));
  }
  return rows;
}

function lineRows(raw, texts, seconds, totals, isDiff) {
  const l = raw.lines;
  const rows = [];
  for (let i = 1; i < l.line.length; i++) {
    const row = {
      index: i, isFunction: false, state: stateOf(l.in[i], isDiff),
      name: texts[l.func[i]], group: texts[l.group[i]],
      source: l.source[i], line: l.line[i],
      where: place(texts[l.source[i]], l.line[i]),
      now: figures(l.now, i), base: figures(l.base, i),
    };
    if (COUNTERS.some(k => row.now[k] || row.base[k]))
      rows.push(finishRow(row, seconds, totals, false));
  }
  return rows;
}

// What the program has named is shown even when nothing was recorded in it.
const IS_NAMED = [false, true, true, false];

function targetRows(raw, texts, seconds, totals, isDiff) {
  const t = raw.targets;
  const rows = [];
  for (let i = 0; i < t.name.length; i++) {
    const row = {
      index: i, isFunction: false, state: stateOf(t.in[i], isDiff),
      name: texts[t.name[i]], group: texts[t.group[i]] || "-",
      source: t.source[i], line: t.line[i],
      where: place(texts[t.source[i]], t.line[i]),
      now: figures(t.now, i), base: figures(t.base, i),
    };
    const isIdle = !hasFigures(row.now) && !hasFigures(row.base);
    if (isIdle && !IS_NAMED[t.what[i]])
      continue;
    row.state = isIdle ? "idle" : row.state;
    rows.push(finishRow(row, seconds, totals, false));
  }
  return rows;
}

function makeModel(raw) {
  const texts = raw.strings.map(s => plain(s));
  const isDiff = raw.runs.length > 1;
  const seconds = raw.runs.map(run => run.seconds);
  const totals = raw.runs.map(run => run.totals.alloc[0]);
  let targets = null;
  const sources = new Map();
  for (const s of raw.sources)
    sources.set(s.source, s.text.split("\n"));
  return {
    raw, texts, isDiff, sources, kinds: raw.kinds, runs: raw.runs,
    functions: functionRows(raw, texts, seconds, totals, isDiff),
    lines: lineRows(raw, texts, seconds, totals, isDiff),
    get targets() { // made when they are looked at
      targets = targets || targetRows(raw, texts, seconds, totals, isDiff);
      return targets;
    },
    hasTargets: raw.targets.what.some(what => IS_NAMED[what]),
    totals: raw.runs.map(run => Object.fromEntries(
      COUNTERS.map(key => [key, run.totals[key][0]]))),
  };
}
