// flame.js: the flame graph, drawn on a canvas.
//
// Only what is wide enough to be seen is laid out, so that the number of nodes
// does not matter.  Widths are bytes; nothing is lost: what is too narrow
// leaves a gap.

import {html, useEffect, useKept, useMemo, useRef, useState} from "./html.js";
import {fromAbove, fromBelow, makeTree} from "./tree.js";
import {bytesText, changeText, countText, shareText, shortName}
  from "./units.js";

const BAR = 20;          // pixels
const LEAST = 0.6;       // pixels: what is narrower is not drawn
const DEEPEST = 1500;    // bars

const METRICS = [["alloc", "Allocated"], ["live", "Live"],
                 ["peak", "At peak"], ["blocks", "Blocks"]];

function hueOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++)
    hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return (hash >>> 0) % 360;
}

const KIND_HUES = [140, 210, 30, 280, 330, 60, 0, 190, 100, 250, 310, 165, 45];

function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = name => style.getPropertyValue(name).trim();
  return {isDark: get("--is-dark") === "1", text: get("--flame-text"),
          dim: get("--flame-dim"), page: get("--panel"),
          line: get("--accent")};
}

// The colour of a change: how much of the larger side it is.
function changeColour(node, isDark) {
  const most = Math.max(node.now, node.base);
  const share = most > 0 ? (node.now - node.base) / most : 0;
  if (Math.abs(share) <= 0.01)
    return isDark ? "hsl(220 8% 34%)" : "hsl(220 12% 84%)";
  const hue = share > 0 ? 6 : 142;
  const depth = Math.min(1, 0.25 + Math.abs(share));
  return isDark ? `hsl(${hue} ${30 + 35 * depth}% ${28 + 16 * depth}%)`
    : `hsl(${hue} ${45 + 30 * depth}% ${88 - 24 * depth}%)`;
}

function barColour(model, node, colourBy, isDark) {
  if (model.isDiff && colourBy === "change")
    return changeColour(node, isDark);
  if (!node.up)
    return isDark ? "hsl(205 14% 32%)" : "hsl(205 18% 84%)";
  const group = model.texts[model.raw.funcs.group[node.func]];
  const hue = colourBy === "kind" ? KIND_HUES[node.kind] : hueOf(group);
  const isC = model.raw.funcs.what[node.func] >= 2;
  const tone = colourBy === "source" && isC ? 14 : 46;
  return isDark ? `hsl(${hue} ${tone}% 36%)` : `hsl(${hue} ${tone + 14}% 76%)`;
}

export function nodeName(model, node) {
  if (node.func === 0 && node.line === 0)
    return "all";
  const name = shortName(model.texts[model.raw.funcs.name[node.func]]);
  return node.line > 0 ? `${name}:${node.line}` : name;
}

function nodePlace(model, node) {
  const source = model.texts[model.raw.funcs.source[node.func]];
  return node.line > 0 ? `${source}:${node.line}` : source;
}

// Bars from the zoomed node down, with its ancestors above it.
function layOut(shape, zoom, width) {
  const bars = [];
  const path = [];
  for (let node = zoom; node; node = node.up)
    path.unshift(node);
  path.forEach((node, depth) => bars.push(
    {node, depth, x: 0, width, isAbove: node !== zoom}));
  const scale = zoom.weight > 0 ? width / zoom.weight : 0;
  const stack = [[zoom, 0, path.length]];
  let deepest = path.length;
  while (stack.length > 0) {
    const [node, x, depth] = stack.pop();
    if (depth >= DEEPEST)
      continue;
    let at = x;
    for (const kid of shape.children(node)) {
      const w = kid.weight * scale;
      if (w < LEAST)
        break; // the others are narrower
      bars.push({node: kid, depth, x: at, width: w});
      deepest = Math.max(deepest, depth + 1);
      stack.push([kid, at, depth + 1]);
      at += w;
    }
  }
  return {bars, deepest};
}

function matcher(model, search) {
  const wanted = search.trim().toLowerCase();
  if (!wanted)
    return null;
  const cache = new Map();
  return node => {
    const key = node.func * 0x80000000 + node.line;
    let is = cache.get(key);
    if (is === undefined) {
      is = `${nodePlace(model, node)} ${nodeName(model, node)}`.toLowerCase()
        .includes(wanted);
      cache.set(key, is);
    }
    return is;
  };
}

// Bytes of the stacks that have a frame that matches.
function matchedWeight(tree, side, matches) {
  const isOnPath = new Uint8Array(tree.n);
  const own = tree.own[side];
  let sum = 0;
  for (let i = 1; i < tree.n; i++) {
    isOnPath[i] = isOnPath[tree.parent[i]] ||
      matches({func: tree.func[i], line: tree.line[i]});
    sum += isOnPath[i] ? own[i] : 0;
  }
  return sum;
}

function draw(canvas, view) {
  const {model, bars, deepest, matches, colourBy, focus, hover} = view;
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = deepest * BAR + 2;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const look = colours();
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.clearRect(0, 0, width, height);
  ctx.font = "12px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  for (const bar of bars) {
    const y = bar.depth * BAR;
    const isDim = bar.isAbove || matches && !matches(bar.node);
    ctx.globalAlpha = bar.isAbove ? 0.45 : 1;
    ctx.fillStyle = isDim && !bar.isAbove ? look.dim
      : barColour(model, bar.node, colourBy, look.isDark);
    const gap = bar.width > 3 ? 1 : 0;
    ctx.fillRect(bar.x, y + 1, Math.max(0.5, bar.width - gap), BAR - 1);
    if (bar.node === focus || bar.node === hover) {
      ctx.strokeStyle = look.line;
      ctx.lineWidth = 2;
      ctx.strokeRect(bar.x + 1, y + 2, Math.max(1, bar.width - gap - 2),
                     BAR - 3);
    }
    if (bar.width > 26) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(bar.x, y, bar.width - 4, BAR);
      ctx.clip();
      ctx.fillStyle = look.text;
      ctx.fillText(barText(model, bar.node, colourBy), bar.x + 5,
                   y + BAR / 2 + 1);
      ctx.restore();
    }
  }
  ctx.globalAlpha = 1;
}

function barText(model, node, colourBy) {
  const name = nodeName(model, node);
  if (!model.isDiff || colourBy !== "change" || node.now === node.base)
    return name;
  return `${node.now > node.base ? "+" : "−"} ${name}`;
}

function describe(model, shape, node, metric) {
  const unit = metric === "blocks" ? "count" : "bytes";
  const text = unit === "count" ? countText : bytesText;
  const parts = [nodeName(model, node)];
  const where = nodePlace(model, node);
  if (where && node.func !== 0)
    parts.push(where);
  parts.push(`${text(node.weight)}${unit === "count" ? " blocks" : ""} (${
    shareText(node.weight, shape.root.weight)})`);
  if (model.isDiff)
    parts.push(`${text(node.base)} → ${text(node.now)}, ${
      changeText(unit, node.now - node.base)}`);
  else if (node.own > 0)
    parts.push(`own ${text(node.own)}`);
  return parts.join(" · ");
}

function Choice({label, value, set, options, name}) {
  return html`<label>${label}${" "}<select value=${value} data-choice=${name}
      onChange=${event => set(event.target.value)}>
    ${options.map(([id, title]) => html`
      <option key=${id} value=${id}>${title}</option>`)}
  </select></label>`;
}

// The keys that go from bar to bar.
function neighbour(shape, zoom, node, key) {
  if (!node)
    return zoom;
  if (key === "ArrowUp")
    return node.up || node;
  if (key === "ArrowDown")
    return shape.children(node)[0] || node;
  const list = node.up ? shape.children(node.up) : [node];
  const at = list.indexOf(node) + (key === "ArrowRight" ? 1 : -1);
  return list[at] || node;
}

function Legend({model, colourBy}) {
  if (colourBy === "kind")
    return html`<p class="legend">${model.kinds.map((kind, i) => html`
      <span key=${kind}><i style=${{background: `hsl(${KIND_HUES[i]} 55% 58%)`}}
        ></i>${kind}</span>`)}</p>`;
  if (colourBy === "change")
    return html`<p class="legend">
      <span><i style=${{background: "hsl(6 70% 60%)"}}></i>+ grew</span>
      <span><i style=${{background: "hsl(142 50% 50%)"}}></i>− shrank</span>
      <span><i style=${{background: "hsl(220 10% 65%)"}}></i>within 1 %</span>
    </p>`;
  return null;
}

export function Flame({model, open, theme}) {
  const [metric, setMetric] = useKept("flame-metric", "alloc");
  const [keptColour, setColour] = useKept("flame-colour",
                                          model.isDiff ? "change" : "source");
  const colourBy = !model.isDiff && keptColour === "change" ? "source"
    : keptColour;
  const [isInverted, setInverted] = useKept("flame-inverted", false);
  const [hasRoots, setRoots] = useKept("flame-roots", false);
  const [keptSide, setSide] = useKept("flame-side", "now");
  const side = model.isDiff && keptSide === "base" ? 1 : 0;
  const [search, setSearch] = useState("");
  const [zoom, setZoom] = useState(null);
  const [focus, setFocus] = useState(null);
  const [hover, setHover] = useState(null);
  const [width, setWidth] = useState(0);
  const canvas = useRef(null);
  const tree = useMemo(() => makeTree(model, {metric, hasRoots}),
                       [model, metric, hasRoots]);
  const shape = useMemo(() => isInverted ? fromBelow(tree, side)
    : fromAbove(tree, side), [tree, isInverted, side]);
  useEffect(() => {
    setZoom(null);
    setFocus(null);
    setHover(null);
  }, [shape]);
  const isOfShape = zoom && (() => {
    let top = zoom;
    while (top.up)
      top = top.up;
    return top === shape.root;
  })();
  const at = isOfShape ? zoom : shape.root;
  const {bars, deepest} = useMemo(() => layOut(shape, at, width),
                                  [shape, at, width]);
  const matches = useMemo(() => matcher(model, search), [model, search]);
  const found = useMemo(() => matches ? matchedWeight(tree, side, matches) : 0,
                        [tree, side, matches]);
  useEffect(() => {
    const watch = new ResizeObserver(() =>
      setWidth(canvas.current ? canvas.current.clientWidth : 0));
    watch.observe(canvas.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (width > 0)
      draw(canvas.current, {model, bars, deepest, matches, colourBy,
                            focus, hover});
  }, [bars, matches, colourBy, focus, hover, width, theme]);
  const barAt = event => {
    const box = canvas.current.getBoundingClientRect();
    const x = event.clientX - box.left;
    const depth = Math.floor((event.clientY - box.top) / BAR);
    return bars.find(bar => bar.depth === depth && x >= bar.x &&
                            x < bar.x + bar.width);
  };
  const press = event => {
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      setFocus(neighbour(shape, at, focus, event.key));
    } else if (event.key === "Enter" && focus) {
      setZoom(focus);
    } else if (event.key === "Escape") {
      setZoom(null);
      setFocus(null);
    } else if (event.key === "s" && focus) {
      open({source: model.raw.funcs.source[focus.func], line: focus.line});
    }
  };
  const told = hover || focus || at;
  return html`<section class="panel" aria-label="Flame graph">
    <div class="toolbar">
      <${Choice} label="Bytes" name="metric" value=${metric} set=${setMetric}
        options=${METRICS} />
      <${Choice} label="Colour by" name="colour" value=${colourBy}
        set=${setColour} options=${[
          ...model.isDiff ? [["change", "change"]] : [],
          ["source", "source"], ["kind", "kind"]]} />
      ${model.isDiff && html`<${Choice} label="Widths" name="side"
        value=${keptSide} set=${setSide}
        options=${[["now", "new run"], ["base", "base, with what is gone"]]} />`}
      <label><input type="checkbox" checked=${isInverted} data-option="inverted"
        onChange=${() => setInverted(!isInverted)} /> Inverted</label>
      <label title="Coroutines hang below what resumed them, or stand alone">
        <input type="checkbox" checked=${hasRoots} data-option="roots"
          onChange=${() => setRoots(!hasRoots)} /> Coroutines as roots</label>
      <input type="search" placeholder="find a frame" aria-label="Find a frame"
        data-option="find" value=${search}
        onInput=${event => setSearch(event.target.value)} />
      <button type="button" data-option="unzoom" disabled=${at === shape.root}
        onClick=${() => setZoom(null)}>Whole graph</button>
      ${matches && html`<span class="count" role="status" data-found>${
        shareText(found, shape.root.weight)} in frames found</span>`}
    </div>
    <p class="told" aria-live="polite" data-told>${
      describe(model, shape, told, metric)}</p>
    <div class="flame-box">
      <canvas ref=${canvas} tabindex="0" role="img"
        aria-label="Flame graph: arrow keys go from frame to frame, Enter zooms,
          Escape shows all, s opens the source"
        onKeyDown=${press}
        onPointerMove=${event => setHover((barAt(event) || {}).node || null)}
        onPointerLeave=${() => setHover(null)}
        onClick=${event => {
          const bar = barAt(event);
          if (bar) {
            setZoom(bar.node);
            setFocus(bar.node);
          }
        }}
        onDblClick=${event => {
          const bar = barAt(event);
          if (bar && bar.node.line > 0)
            open({source: model.raw.funcs.source[bar.node.func],
                  line: bar.node.line});
        }}></canvas>
      ${shape.root.weight === 0 && html`<p class="none">Nothing to show.</p>`}
    </div>
    <${Legend} model=${model} colourBy=${colourBy} />
    <p class="foot">${isInverted ? "Allocating functions at the top, callers below"
      : "Callers at the top, allocating functions below"}. Click zooms, a double
      click opens the source.</p>
  </section>`;
}
