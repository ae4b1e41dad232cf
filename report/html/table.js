// table.js: the table of functions, lines or targets.
//
// Only the rows in sight are in the page, so that 100,000 of them scroll as
// well as ten; the rows above and below are two spacers.

import {cellText, cellValue, changeClass, columnOf, COLUMNS, HIDDEN_AT_FIRST}
  from "./columns.js";
import {copyText, html, useEffect, useKept, useLayoutEffect, useMemo, useRef,
        useState} from "./html.js";
import {bytesText, countText, shortName, tail} from "./units.js";

const ROW = 26;        // pixels; view.css has the same
const SPARE = 12;      // rows kept above and below those in sight
const TITLES = {functions: "Functions", lines: "Lines", targets: "Targets"};
const BADGES = {gone: "(gone)", new: "(new)", idle: "nothing recorded"};
const SMALL = 1024;    // bytes that "hide below 1 KiB" hides
const LETTER = 7.6;    // width of one, about
const WIDTH_LEAST = 48;

function visibleRows(rows, filters, hides, mode) {
  const [any, name, group, source] = ["any", "name", "group", "source"]
    .map(key => filters[key].trim().toLowerCase());
  return rows.filter(row => {
    if (any && !row.key.includes(any) || name && !row.nameKey.includes(name) ||
        group && !row.groupKey.includes(group) ||
        source && !row.whereKey.includes(source))
      return false;
    if (!hides)
      return true;
    return ["alloc", "total", "live"].some(key =>
      Math.abs(cellValue(columnOf(key), row, mode)) >= SMALL);
  });
}

function sortRows(rows, sort, mode) {
  const column = columnOf(sort.by) || columnOf("alloc");
  const way = sort.isUp ? 1 : -1;
  const value = column.isText ? row => row[column.id + "Key"] ?? row.key
    : row => cellValue(column, row, mode);
  const keyed = rows.map(row => [value(row), row]);
  keyed.sort((a, b) => a[0] < b[0] ? -way : a[0] > b[0] ? way
    : a[1].index - b[1].index);
  return keyed.map(pair => pair[1]);
}

const SUMMED = ["alloc", "share", "rate", "live", "peak", "young", "once",
  "twice", "older", "blocks"];

// Sums of a section; what is no sum of rows is left out.
function subtotal(rows, name) {
  const sum = {isSection: true, name, n: rows.length, now: {}, base: {}};
  for (const side of ["now", "base"])
    for (const row of rows)
      for (const key of SUMMED)
        sum[side][key] = (sum[side][key] || 0) + (row[side][key] || 0);
  return sum;
}

// Sections in the order of their subtotals, each with its rows unless folded.
function withSections(rows, folded, sort, mode) {
  const groups = new Map();
  for (const row of rows) {
    const list = groups.get(row.group);
    if (list)
      list.push(row);
    else
      groups.set(row.group, [row]);
  }
  const sums = [...groups].map(([name, list]) => subtotal(list, name));
  const column = columnOf(sort.by);
  const by = column.isText || sums.some(s => s.now[column.id] === undefined)
    ? columnOf("alloc") : column;
  const way = sort.isUp && !column.isText ? 1 : -1;
  sums.sort((a, b) => sort.by === "group"
    ? (a.name < b.name ? -1 : 1) * (sort.isUp ? 1 : -1)
    : way * (cellValue(by, a, mode) - cellValue(by, b, mode)));
  const out = [];
  for (const sum of sums) {
    out.push(sum);
    if (!folded[sum.name])
      out.push(...groups.get(sum.name));
  }
  return out;
}

function Filters({filters, set, isLines}) {
  const input = (key, label) => html`
    <input type="search" value=${filters[key]} placeholder=${label}
      aria-label=${`Filter by ${label}`} data-filter=${key}
      onInput=${event => set({...filters, [key]: event.target.value})} />`;
  return html`<div class="filters" role="search">
    ${input("any", "anything")}
    ${input("name", isLines ? "function" : "name")}
    ${input("group", "group")}
    ${input("source", "source")}
  </div>`;
}

function ColumnMenu({hidden, setHidden, hasTotals}) {
  const flip = id => setHidden(hidden.includes(id)
    ? hidden.filter(other => other !== id) : [...hidden, id]);
  return html`<details class="menu">
    <summary>Columns</summary>
    <div class="menu-body">
      ${COLUMNS.filter(c => hasTotals || c.id !== "total").map(column => html`
        <label key=${column.id} title=${column.help}>
          <input type="checkbox" checked=${!hidden.includes(column.id)}
            onChange=${() => flip(column.id)} /> ${column.title}
        </label>`)}
    </div>
  </details>`;
}

function Heading({column, width, sort, setSort, setWidth}) {
  const isSorted = sort.by === column.id;
  const press = () => setSort({by: column.id,
                               isUp: isSorted ? !sort.isUp : !!column.isText});
  const drag = event => {
    event.preventDefault();
    event.stopPropagation();
    const start = event.clientX;
    const move = e => setWidth(column.id,
                               Math.max(WIDTH_LEAST, width + e.clientX - start));
    const up = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
  };
  const nudge = event => {
    const by = {ArrowLeft: -16, ArrowRight: 16}[event.key];
    if (by) {
      event.preventDefault();
      setWidth(column.id, Math.max(WIDTH_LEAST, width + by));
    }
  };
  return html`<th scope="col" class=${column.isText ? "text" : "figure"}
      aria-sort=${isSorted ? sort.isUp ? "ascending" : "descending" : "none"}>
    <button type="button" class="sort" title=${column.help}
      data-sort=${column.id} onClick=${press}>
      <span>${column.title}</span>
      <span class="arrow" aria-hidden="true">
        ${isSorted ? sort.isUp ? "▲" : "▼" : ""}</span>
    </button>
    <span class="grip" role="separator" aria-orientation="vertical"
      tabindex="0" aria-label=${`Width of ${column.title}`}
      aria-valuenow=${width} onPointerDown=${drag} onKeyDown=${nudge}></span>
  </th>`;
}

function shownText(column, text, width) {
  if (column.id === "name")
    return shortName(text);
  return tail(text, Math.floor((width - 16) / LETTER));
}

function Cell({column, row, mode, most, width}) {
  const value = column.isText ? row[column.id] : cellValue(column, row, mode);
  const shown = cellText(column, value, mode);
  if (column.isText) {
    const badge = column.id === "name" && row.state
      ? html`<span class=${`badge ${row.state}`}>${
        BADGES[row.state]}</span>` : null;
    return html`<td class="text" title=${shown}>${badge}${
      shownText(column, shown, width)}</td>`;
  }
  const look = mode === "change" ? changeClass(column, row) : "";
  const share = most > 0 ? Math.min(1, Math.abs(value) / most) : 0;
  return html`<td class=${`figure ${look}`}>
    ${share > 0 && html`<span class="bar" aria-hidden="true"
      style=${{width: `${100 * share}%`}}></span>`}
    <span class="value">${shown}</span></td>`;
}

function SectionRow({row, columns, widths, mode, isFolded, flip, at,
                     isChosen}) {
  return html`<tr class=${`section ${isChosen ? "chosen" : ""}`}
      aria-rowindex=${at + 2} id=${`row-${at}`} onClick=${flip}>
    ${columns.map((column, i) => i === 0 ? html`
      <th scope="row" class="text">
        <button type="button" aria-expanded=${!isFolded} title=${row.name}
          onClick=${event => { event.stopPropagation(); flip(); }}>
          <span aria-hidden="true">${isFolded ? "▸" : "▾"}</span>
          ${" "}${tail(row.name, Math.floor((widths(columns[0]) - 90) / LETTER))
          }</button>
        <span class="n">${countText(row.n)}</span></th>`
      : html`<td class=${column.isText ? "text" : "figure"}>${
        SUMMED.includes(column.id)
          ? cellText(column, cellValue(column, row, mode), mode) : ""}</td>`)}
  </tr>`;
}

// The rows in sight of a scrolled box.
function useWindow(n) {
  const box = useRef(null);
  const [span, setSpan] = useState([0, 60]);
  const look = () => {
    const at = box.current;
    if (!at)
      return;
    const from = Math.max(0, Math.floor(at.scrollTop / ROW) - SPARE);
    const to = from + Math.ceil(at.clientHeight / ROW) + 2 * SPARE;
    setSpan(old => old[0] === from && old[1] === to ? old : [from, to]);
  };
  useLayoutEffect(look, [n]);
  useEffect(() => {
    const watch = new ResizeObserver(look);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, Math.min(span[0], Math.max(0, n - 1)), Math.min(span[1], n),
          look];
}

function rowText(columns, row, mode) {
  return columns.map(column => column.isText ? row[column.id] ?? ""
    : cellText(column, cellValue(column, row, mode), mode)).join("\t");
}

function Body({rows, columns, widths, state, chosen, choose, open}) {
  const {mode, sort, setSort, setWidth, folded, setFolded, most} = state;
  const [box, from, to, look] = useWindow(rows.length);
  const flip = row => setFolded({...folded, [row.name]: !folded[row.name]});
  const show = at => {
    const el = box.current;
    const top = at * ROW;
    if (top < el.scrollTop)
      el.scrollTop = top;
    else if (top + 3 * ROW > el.scrollTop + el.clientHeight)
      el.scrollTop = top + 3 * ROW - el.clientHeight;
  };
  const at = chosen ? rows.indexOf(chosen) : -1;
  const press = event => {
    if (event.target !== box.current)
      return;
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20,
                   Home: -rows.length, End: rows.length};
    if (event.key in steps && rows.length > 0) {
      event.preventDefault();
      const to = Math.max(0, Math.min(rows.length - 1, at + steps[event.key]));
      choose(rows[to]);
      show(to);
    } else if (event.key === "Enter" && at >= 0) {
      if (rows[at].isSection)
        flip(rows[at]);
      else
        open(rows[at]);
    } else if (event.key === "c" && at >= 0) {
      copyText(rowText(columns, rows[at], mode));
    }
  };
  const total = columns.reduce((sum, c) => sum + widths(c), 0);
  return html`<div class="table-box" ref=${box} onScroll=${look} tabindex="0"
      onKeyDown=${press} role="region" aria-label="Rows"
      aria-activedescendant=${at >= 0 ? `row-${at}` : null}>
    <table style=${{width: `${total}px`}} aria-rowcount=${rows.length + 1}>
      <colgroup>${columns.map(c => html`
        <col key=${c.id} style=${{width: `${widths(c)}px`}} />`)}</colgroup>
      <thead><tr aria-rowindex="1">${columns.map(column => html`
        <${Heading} key=${column.id} column=${column} width=${widths(column)}
          sort=${sort} setSort=${setSort} setWidth=${setWidth} />`)}</tr></thead>
      <tbody>
        <tr class="space" style=${{height: `${from * ROW}px`}}></tr>
        ${rows.slice(from, to).map((row, i) => row.isSection ? html`
          <${SectionRow} key=${`s${row.name}`} row=${row} columns=${columns} widths=${widths}
            mode=${mode} isFolded=${!!folded[row.name]} at=${from + i}
            isChosen=${row === chosen} flip=${() => flip(row)} />` : html`
          <tr key=${row.index} id=${`row-${from + i}`}
            aria-rowindex=${from + i + 2} aria-selected=${row === chosen}
            class=${`${row === chosen ? "chosen" : ""} ${row.state}`}
            onClick=${() => choose(row)} onDblClick=${() => open(row)}>
            ${columns.map(column => html`<${Cell} key=${column.id}
              column=${column} row=${row} mode=${mode}
              most=${column.id === sort.by ? most : 0}
              width=${widths(column)} />`)}
          </tr>`)}
        <tr class="space" style=${{height: `${(rows.length - to) * ROW}px`}}>
        </tr>
      </tbody>
    </table>
    ${rows.length === 0 && html`<p class="none">No row matches.</p>`}
  </div>`;
}

function Toolbar({state, rows, n, model, chosen, copied}) {
  const {by, setBy, mode, setMode, hides, setHides, hasSections, setSections,
         folded, setFolded, reset, copy} = state;
  const groups = () => Object.fromEntries(
    rows.filter(row => row.isSection).map(row => [row.name, true]));
  const isAnyFolded = Object.values(folded).some(v => v);
  return html`<div class="toolbar">
    <div class="choice" role="radiogroup" aria-label="Rows are">
      ${Object.keys(TITLES).map(id => html`<button type="button" key=${id}
        role="radio" aria-checked=${by === id} data-by=${id}
        onClick=${() => setBy(id)}>${TITLES[id]}</button>`)}
    </div>
    ${model.isDiff && html`<div class="choice" role="radiogroup"
      aria-label="Figures are">
      ${[["change", "Change"], ["now", "New run"], ["base", "Base"]].map(
        ([id, label]) => html`<button type="button" key=${id} role="radio"
          aria-checked=${mode === id} data-mode=${id}
          onClick=${() => setMode(id)}>${label}</button>`)}
    </div>`}
    <label><input type="checkbox" checked=${hasSections} data-option="sections"
      onChange=${() => setSections(!hasSections)} /> Sections</label>
    ${hasSections && html`<button type="button" data-option="fold"
      onClick=${() => setFolded(isAnyFolded ? {} : groups())}>
      ${isAnyFolded ? "Unfold all" : "Fold all"}</button>`}
    <label><input type="checkbox" checked=${hides} data-option="small"
      onChange=${() => setHides(!hides)} /> Hide below 1 KiB</label>
    <${ColumnMenu} hidden=${state.hidden} setHidden=${state.setHidden}
      hasTotals=${by === "functions"} />
    <button type="button" data-option="reset" onClick=${reset}>Reset</button>
    <button type="button" data-option="copy" disabled=${!chosen}
      onClick=${copy}>${copied ? "Copied" : "Copy row"}</button>
    <span class="count" role="status">${countText(n)} ${by}</span>
  </div>`;
}

export function Table({model, open, details, filterText}) {
  const first = model.isDiff ? "change" : "now";
  const [keptBy, setBy] = useKept("by", model.hasTargets ? "targets"
    : "functions");
  const by = keptBy in TITLES ? keptBy : "functions";
  const [keptMode, setMode] = useKept("mode", "change");
  const mode = model.isDiff ? keptMode : first;
  const [sort, setSort] = useKept("sort", {by: "alloc", isUp: false});
  const [filters, setFilters] = useKept(
    "filters", {any: "", name: "", group: "", source: ""});
  const [hides, setHides] = useKept("hides", false);
  const [hasSections, setSections] = useKept("sections", false);
  const [folded, setFolded] = useKept("folded", {});
  const [hidden, setHidden] = useKept("hidden", HIDDEN_AT_FIRST);
  const [widthOf, setWidths] = useKept("widths", {});
  const [chosen, choose] = useState(null);
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (filterText)
      setFilters({any: "", name: "", group: "", source: "", ...filterText});
  }, [filterText]);
  const all = model[by];
  const columns = COLUMNS.filter(c => !hidden.includes(c.id) &&
                                      (by === "functions" || c.id !== "total"));
  const found = useMemo(() => visibleRows(all, filters, hides, mode),
                        [all, filters, hides, mode]);
  const sorted = useMemo(() => sortRows(found, sort, mode),
                         [found, sort, mode]);
  const rows = useMemo(() => hasSections
    ? withSections(sorted, folded, sort, mode) : sorted,
    [sorted, hasSections, folded, sort, mode]);
  const column = columnOf(sort.by);
  const most = useMemo(() => column.isText ? 0 : found.reduce((max, row) =>
    Math.max(max, Math.abs(cellValue(column, row, mode))), 0),
    [found, column, mode]);
  const reset = () => {
    setSort({by: "alloc", isUp: false});
    setFilters({any: "", name: "", group: "", source: ""});
    setHides(false);
    setSections(false);
    setFolded({});
    setHidden(HIDDEN_AT_FIRST);
    setWidths({});
  };
  const copy = async () => {
    setCopied(await copyText(rowText(columns, chosen, mode)));
    setTimeout(() => setCopied(false), 1500);
  };
  const state = {
    by, setBy, mode, setMode, sort, setSort, hides, setHides, hasSections,
    setSections, folded, setFolded, hidden, setHidden, reset, copy, most,
    setWidth: (id, width) => setWidths({...widthOf, [id]: Math.round(width)}),
  };
  const shown = found.reduce((sum, row) => sum + (row.now.alloc || 0), 0);
  return html`<section class="panel" aria-label="Table">
    <${Toolbar} state=${state} rows=${rows} n=${found.length} model=${model}
      chosen=${chosen} copied=${copied} />
    <${Filters} filters=${filters} set=${setFilters}
      isLines=${by === "lines"} />
    <${Body} rows=${rows} columns=${columns} state=${state} chosen=${chosen}
      widths=${c => widthOf[c.id] || c.width} choose=${choose} open=${open} />
    <p class="foot">${bytesText(shown)} allocated by the rows shown, of ${
      bytesText(model.totals[0].alloc)}. Enter opens the source of the chosen
      row, c copies it.</p>
    ${chosen && !chosen.isSection && details(chosen)}
  </section>`;
}
