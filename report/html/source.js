// source.js: source lines with what each allocated beside them.

import {changeClass, columnOf} from "./columns.js";
import {html, useEffect, useLayoutEffect, useMemo, useRef, useState}
  from "./html.js";
import {bytesText, changeText, countText, plain} from "./units.js";

const ROW = 20;   // pixels; view.css has the same
const SPARE = 30;

// Sources with what their lines allocated, heaviest first.
function listSources(model) {
  const found = new Map();
  for (const row of model.lines) {
    const entry = found.get(row.source) ||
      {source: row.source, name: model.texts[row.source], bytes: 0, now: 0,
       rows: []};
    entry.bytes += Math.max(row.now.alloc || 0, row.base.alloc || 0);
    entry.now += row.now.alloc || 0;
    entry.rows.push(row);
    found.set(row.source, entry);
  }
  const list = [...found.values()];
  for (const entry of list) {
    entry.text = model.sources.get(entry.source) || null;
    entry.rows.sort((a, b) => a.line - b.line);
  }
  return list.sort((a, b) => b.bytes - a.bytes);
}

// One entry for each line: its text, and its row where it has one.
function listLines(entry) {
  const byLine = new Map();
  const gone = [];
  for (const row of entry.rows)
    if (row.state === "gone")
      gone.push(row);
    else
      byLine.set(row.line, row);
  if (!entry.text)
    return entry.rows.map(row => ({line: row.line, row, text: row.name}));
  const lines = entry.text.map((text, i) =>
    ({line: i + 1, text, row: byLine.get(i + 1)}));
  while (lines.length > 0 && lines[lines.length - 1].text === "" &&
         !lines[lines.length - 1].row)
    lines.pop();
  for (const row of gone)
    lines.push({line: row.line, text: "", row});
  return lines;
}

function Line({item, most, model, isChosen, choose}) {
  const {row} = item;
  const value = row ? row.now.alloc || 0 : 0;
  const share = row && most > 0
    ? Math.max(value, row.base.alloc || 0) / most : 0;
  const heat = share > 0.25 ? "hot" : share > 0.05 ? "warm" : "";
  const change = row && model.isDiff ? value - (row.base.alloc || 0) : 0;
  return html`<tr class=${`${heat} ${isChosen ? "chosen" : ""} ${
      row ? row.state : ""}`} onClick=${choose}>
    <td class="figure">${share > 0 && html`<span class="bar" aria-hidden="true"
      style=${{width: `${100 * share}%`}}></span>`}<span class="value">${
      row ? bytesText(value) : ""}</span></td>
    ${model.isDiff && html`<td class=${`figure ${row
      ? changeClass(columnOf("alloc"), row) : ""}`}>${
      row ? changeText("bytes", change) : ""}</td>`}
    <td class="figure">${row ? countText(row.now.blocks || 0) : ""}</td>
    <td class="figure">${row ? bytesText(row.now.live || 0) : ""}</td>
    <td class="line">${item.line}</td>
    <td class="code">${row && row.state === "gone"
      ? html`<em>(gone) ${row.name}</em>` : plain(item.text.replace(/\t/g,
        "    "), 2000)}</td>
  </tr>`;
}

function Lines({entry, model, target}) {
  const box = useRef(null);
  const lines = useMemo(() => listLines(entry), [entry]);
  const [span, setSpan] = useState([0, 80]);
  const [chosen, choose] = useState(-1);
  const most = entry.rows.reduce((max, row) =>
    Math.max(max, row.now.alloc || 0, row.base.alloc || 0), 0);
  const look = () => {
    const from = Math.max(0, Math.floor(box.current.scrollTop / ROW) - SPARE);
    setSpan([from, from + Math.ceil(box.current.clientHeight / ROW) +
                   2 * SPARE]);
  };
  const go = at => {
    if (at < 0)
      return;
    choose(at);
    box.current.scrollTop = Math.max(0, (at - 6) * ROW);
    look();
  };
  useLayoutEffect(() => {
    const hottest = entry.rows.reduce((best, row) =>
      (row.now.alloc || 0) > (best ? best.now.alloc || 0 : -1) ? row : best,
      null);
    const line = target && target.source === entry.source && target.line
      ? target.line : hottest ? hottest.line : 0;
    go(lines.findIndex(item => item.line === line));
  }, [entry, target]);
  const hot = lines.map((item, i) => [item.row ? item.row.now.alloc || 0 : 0, i])
    .filter(pair => pair[0] > 0).sort((a, b) => b[0] - a[0]).slice(0, 20)
    .map(pair => pair[1]);
  const step = by => {
    const at = hot.indexOf(chosen);
    go(hot[Math.max(0, Math.min(hot.length - 1, at + by))] ?? -1);
  };
  const press = event => {
    const by = {n: 1, p: -1}[event.key];
    if (by)
      step(by);
  };
  const [from, to] = [Math.min(span[0], lines.length),
                      Math.min(span[1], lines.length)];
  return html`<div>
    <div class="toolbar">
      <button type="button" onClick=${() => step(-1)}>Hotter line</button>
      <button type="button" onClick=${() => step(1)}>Next hot line</button>
      ${!entry.text && html`<span class="count">The text is not in this page:
        it was not at hand, has changed since the run, or was left out.</span>`}
    </div>
    <div class="source-box" ref=${box} onScroll=${look} tabindex="0"
        onKeyDown=${press} role="region" aria-label=${entry.name}>
      <table class="source">
        <thead><tr><th scope="col">Bytes</th>
          ${model.isDiff && html`<th scope="col">Change</th>`}
          <th scope="col">Blocks</th><th scope="col">Live</th>
          <th scope="col">Line</th><th scope="col" class="text">Source</th>
        </tr></thead>
        <tbody>
          <tr style=${{height: `${from * ROW}px`}}></tr>
          ${lines.slice(from, to).map((item, i) => html`<${Line}
            key=${from + i} item=${item} most=${most} model=${model}
            isChosen=${from + i === chosen}
            choose=${() => choose(from + i)} />`)}
          <tr style=${{height: `${(lines.length - to) * ROW}px`}}></tr>
        </tbody>
      </table>
    </div>
  </div>`;
}

export function Source({model, target}) {
  const list = useMemo(() => listSources(model), [model]);
  const [source, setSource] = useState(
    target ? target.source : list.length > 0 ? list[0].source : 0);
  useEffect(() => {
    if (target)
      setSource(target.source);
  }, [target]);
  const entry = list.find(e => e.source === source) || list[0];
  if (!entry)
    return html`<section class="panel"><p class="none">No Lua line allocated
      anything.</p></section>`;
  return html`<section class="panel" aria-label="Source">
    <label class="file">File ${" "}<select value=${String(entry.source)}
        data-choice="file"
        onChange=${event => setSource(Number(event.target.value))}>
      ${list.map(e => html`<option key=${e.source} value=${String(e.source)}>${
        e.name} (${bytesText(e.now)})</option>`)}
    </select></label>
    <${Lines} key=${entry.source} entry=${entry} model=${model}
      target=${target} />
  </section>`;
}
