// timeline.js: the heap over time, with the collector's cycles marked.
//
// A cycle gives two points: what was held when its atomic phase was over, and
// the least that was held until the next one.  Between them stand the moments
// that the profile has noted.

import uPlot from "uplot";

import {html, useEffect, useMemo, useRef, useState} from "./html.js";
import {drawMarks, Failure, Marks} from "./marks.js";
import {bytesText, countText, secondsText} from "./units.js";

const CAUSES = ["unknown", "automatic", "explicit", "emergency"];
const MODES = {0: "incremental", 1: "generational"};
const ROWS_MOST = 200;
const HEIGHT = 320;

// Points in time order: [seconds, bytes].
function pointsOf(run) {
  const {at, end, before, after} = run.cycles;
  const points = [[0, 0]];
  for (let i = 0; i < at.length; i++) {
    const start = at[i] / 1e9;
    const next = i + 1 < at.length ? at[i + 1] / 1e9 : run.seconds;
    const low = end[i] > at[i] ? end[i] / 1e9 : start + (next - start) / 2;
    points.push([start, before[i]], [Math.min(low, next), after[i]]);
  }
  run.moments.at.forEach((t, i) =>
    points.push([t / 1e9, run.moments.live[i]]));
  points.push([run.seconds, run.totals.live[0]]);
  points.sort((a, b) => a[0] - b[0]);
  const xs = [];
  const ys = [];
  for (const [x, y] of points)
    if (xs.length === 0 || x > xs[xs.length - 1]) {
      xs.push(x);
      ys.push(y);
    } else {
      ys[ys.length - 1] = Math.max(ys[ys.length - 1], y);
    }
  return [xs, ys];
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name)
    .trim();
}

// Lines where cycles were, behind the curve; no more than there is room for.
function drawCycles(run) {
  return plot => {
    const {ctx, bbox} = plot;
    const {at, cause} = run.cycles;
    ctx.save();
    let last = -10;
    for (let i = 0; i < at.length; i++) {
      const x = plot.valToPos(at[i] / 1e9, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width || x - last < 2)
        continue;
      last = x;
      ctx.strokeStyle = css(cause[i] === 2 ? "--cycle-explicit"
        : cause[i] === 3 ? "--worse" : "--cycle");
      ctx.lineWidth = devicePixelRatio || 1;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
}

function plotOptions(model, width, choose) {
  const axis = {
    stroke: css("--soft"), font: "12px system-ui, sans-serif",
    grid: {stroke: css("--rule"), width: 1}, ticks: {stroke: css("--rule")},
  };
  const series = [
    {label: "Time", value: (u, v) => v === null ? "" : secondsText(v)},
    {label: model.isDiff ? "Heap, new run" : "Heap", stroke: css("--accent"),
     width: 2, fill: css("--accent-wash"), spanGaps: true,
     value: (u, v) => v === null ? "" : bytesText(v)},
  ];
  if (model.isDiff)
    series.push({label: "Heap, base", stroke: css("--soft"), width: 1.5,
                 dash: [5, 4], spanGaps: true,
                 value: (u, v) => v === null ? "" : bytesText(v)});
  return {
    width, height: HEIGHT, series,
    scales: {x: {time: false}, y: {range: (u, min, max) =>
      [0, max > 0 ? max * 1.06 : 1]}},
    axes: [
      {...axis, values: (u, vs) => vs.map(v => secondsText(v))},
      {...axis, size: 78, values: (u, vs) => vs.map(v => bytesText(v)),
       incrs: [...Array(50).keys()].flatMap(i => [1, 2, 5].map(k =>
         k * 2 ** i)).sort((a, b) => a - b)},
    ],
    cursor: {drag: {x: true, y: false, setScale: false}},
    hooks: {
      drawClear: [drawCycles(model.runs[0])],
      draw: [drawMarks(model.raw.marks, css)],
      setSelect: [plot => {
        const {left, width: w} = plot.select;
        choose(w < 2 ? null : [plot.posToVal(left, "x"),
                               plot.posToVal(left + w, "x")]);
      }],
    },
  };
}

// What happened in a span of time.
function sumSpan(run, span) {
  const {at, before, after, freed} = run.cycles;
  const inside = [];
  for (let i = 0; i < at.length; i++) {
    const t = at[i] / 1e9;
    if (!span || t >= span[0] && t <= span[1])
      inside.push(i);
  }
  return {inside, freed: inside.reduce((sum, i) => sum + freed[i], 0),
          most: inside.reduce((max, i) => Math.max(max, before[i]), 0),
          least: inside.reduce((min, i) => Math.min(min, after[i]), Infinity)};
}

function Cycles({model, span}) {
  const run = model.runs[0];
  const {inside, freed, most, least} = useMemo(() => sumSpan(run, span),
                                               [run, span]);
  const c = run.cycles;
  const where = i => {
    const line = c.line[i];
    return line > 0 ? `${model.texts[model.raw.lines.source[line]]}:${
      model.raw.lines.line[line]}` : "";
  };
  return html`<div>
    <p data-span role="status">${span ? `From ${secondsText(span[0])} to ${
      secondsText(span[1])}: ` : "Whole run: "}${countText(inside.length)} ${
      inside.length === 1 ? "cycle" : "cycles"}${inside.length > 0
      ? `, ${bytesText(freed)} freed, heap between ${bytesText(least)} and ${
        bytesText(most)}` : ""}.</p>
    ${inside.length > 0 && html`<div class="scroll"><table class="small">
      <thead><tr><th scope="col">Cycle</th><th scope="col">At</th>
        <th scope="col">Cause</th><th scope="col">Mode</th>
        <th scope="col">Before</th><th scope="col">After</th>
        <th scope="col">Freed</th><th scope="col">Blocks freed</th>
        <th scope="col" class="text">Running</th></tr></thead>
      <tbody>${inside.slice(0, ROWS_MOST).map(i => html`<tr key=${i}>
        <td>${countText(c.n[i])}</td><td>${secondsText(c.at[i] / 1e9)}</td>
        <td>${CAUSES[c.cause[i]] || "unknown"}</td>
        <td>${MODES[c.mode[i]] || "unknown"}</td>
        <td>${bytesText(c.before[i])}</td><td>${bytesText(c.after[i])}</td>
        <td>${bytesText(c.freed[i])}</td><td>${countText(c.blocks[i])}</td>
        <td class="text">${where(i)}</td></tr>`)}</tbody></table></div>`}
    ${inside.length > ROWS_MOST && html`<p class="foot">The first ${
      ROWS_MOST} of them; choose a span to see others.</p>`}
  </div>`;
}

export function Timeline({model, theme}) {
  const box = useRef(null);
  const [span, setSpan] = useState(null);
  const data = useMemo(() => {
    const tables = model.runs.map(pointsOf);
    return tables.length > 1 ? uPlot.join(tables) : tables[0];
  }, [model]);
  useEffect(() => {
    const place = box.current; // the reference goes before the watch does
    const width = () => Math.max(280, place.clientWidth);
    const plot = new uPlot(plotOptions(model, width(), setSpan), data, place);
    const watch = new ResizeObserver(() =>
      plot.setSize({width: width(), height: HEIGHT}));
    watch.observe(place);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [model, data, theme]);
  return html`<section class="panel" aria-label="Heap over time">
    <p class="legend"><span><i class="cycle"></i>cycle</span>
      <span><i class="cycle explicit"></i>asked for</span>
      <span><i class="cycle emergency"></i>emergency</span>
      <span>Drag over the curve to choose a span.</span>
      ${model.runs[0].states > 1 && html`<span>There were ${
        model.runs[0].states} states: the curve has the cycles of all.</span>`}
      ${span && html`<button type="button" onClick=${() => setSpan(null)}>
        Whole run</button>`}</p>
    <div class="plot" ref=${box} role="img"
      aria-label=${`Heap over time: peak ${bytesText(model.totals[0].peak)}, ${
        bytesText(model.totals[0].live)} at the end`}></div>
    <${Failure} failure=${model.raw.failure} />
    <${Marks} marks=${model.raw.marks} />
    <${Cycles} model=${model} span=${span} />
  </section>`;
}
