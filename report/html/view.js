// view.js: puts the page together.

import {readData} from "./data.js";
import {Flame, nodeName} from "./flame.js";
import {html, render, useEffect, useKept, useMemo, useState} from "./html.js";
import {Kinds} from "./kinds.js";
import {Source} from "./source.js";
import {commandOf, DiffNote, Findings, Meta, Summary} from "./summary.js";
import {Table} from "./table.js";
import {Timeline} from "./timeline.js";
import {callersOf, makeTree} from "./tree.js";
import {bytesText, changeText, shareText} from "./units.js";

const TABS = [["table", "Table"], ["flame", "Flame graph"],
              ["time", "Heap over time"], ["source", "Source"],
              ["kinds", "Kinds"]];
const CALLERS_MOST = 12;

function useTheme() {
  const [theme, set] = useKept("theme", "auto");
  const [, setSystem] = useState(0);
  useEffect(() => {
    const root = document.documentElement;
    if (theme === "auto")
      delete root.dataset.theme;
    else
      root.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const note = () => setSystem(n => n + 1);
    media.addEventListener("change", note);
    return () => media.removeEventListener("change", note);
  }, []);
  const isDark = theme === "dark" || theme === "auto" &&
    matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.style.colorScheme = isDark ? "dark" : "light";
  return [theme, set, isDark];
}

// What is known of a chosen row besides its figures: who calls it.
function Details({model, row, open}) {
  const tree = useMemo(() => makeTree(model, {metric: "alloc"}), [model]);
  const callers = useMemo(() => row.isFunction ? callersOf(tree, row.index)
    : [], [tree, row]);
  const whole = callers.reduce((sum, c) => sum + c.now, 0);
  return html`<div class="details">
    <p><b>${row.name}</b> ${" "}${row.where}
      ${row.line > 0 && html` <button type="button" class="link"
        onClick=${() => open(row)}>show the source</button>`}</p>
    ${row.isFunction && html`<table class="small"><caption>Called from</caption>
      <tbody>${callers.slice(0, CALLERS_MOST).map((c, i) => html`<tr key=${i}>
        <td class="figure">${bytesText(c.now)}</td>
        ${model.isDiff && html`<td class="figure">${
          changeText("bytes", c.now - c.base)}</td>`}
        <td class="figure">${shareText(c.now, whole)}</td>
        <td class="text">${c.func === 0 ? "the host" : nodeName(model, c)}</td>
        <td class="text soft">${c.line > 0 ? `${
          model.texts[model.raw.funcs.source[c.func]]}:${c.line}` : ""}</td>
      </tr>`)}</tbody></table>`}
    ${callers.length > CALLERS_MOST && html`<p class="foot">and ${
      callers.length - CALLERS_MOST} more</p>`}
  </div>`;
}

function Tabs({tab, setTab}) {
  const press = event => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by)
      return;
    const at = TABS.findIndex(([id]) => id === tab);
    const [id] = TABS[(at + by + TABS.length) % TABS.length];
    setTab(id);
    document.getElementById(`tab-${id}`).focus();
  };
  return html`<div role="tablist" aria-label="Views" onKeyDown=${press}>
    ${TABS.map(([id, title]) => html`<button type="button" key=${id} role="tab"
      id=${`tab-${id}`} aria-selected=${tab === id} aria-controls="view"
      tabindex=${tab === id ? 0 : -1} onClick=${() => setTab(id)}>${title}
      </button>`)}</div>`;
}

function App({model}) {
  const [keptTab, setTab] = useKept("tab", "table");
  const tab = TABS.some(([id]) => id === keptTab) ? keptTab : "table";
  const [target, setTarget] = useState(null);
  const [theme, setTheme, isDark] = useTheme();
  const open = ({source, line}) => {
    setTarget({source, line});
    setTab("source");
  };
  const details = row => html`<${Details} model=${model} row=${row}
    open=${open} />`;
  const views = {
    table: () => html`<${Table} model=${model} open=${open}
      details=${details} />`,
    flame: () => html`<${Flame} model=${model} open=${open}
      theme=${isDark} />`,
    time: () => html`<${Timeline} model=${model} theme=${isDark} />`,
    source: () => html`<${Source} model=${model} target=${target} />`,
    kinds: () => html`<${Kinds} model=${model} />`,
  };
  return html`
    <header>
      <div class="title"><span class="mark" aria-hidden="true"></span>
        <h1>tidemark${model.isDiff ? " diff" : ""}</h1>
        <code>${commandOf(model.runs[0])}</code></div>
      <label class="theme">Theme ${" "}<select value=${theme}
          data-choice="theme" onChange=${e => setTheme(e.target.value)}>
        <option value="auto">system</option><option value="light">light</option>
        <option value="dark">dark</option></select></label>
    </header>
    <main>
      <${Meta} model=${model} />
      ${model.isDiff && html`<${DiffNote} model=${model} />`}
      <${Findings} model=${model} open=${open} />
      <${Summary} model=${model} />
      <${Tabs} tab=${tab} setTab=${setTab} />
      <div id="view" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
        ${views[tab]()}</div>
    </main>`;
}

async function start() {
  const root = document.getElementById("app");
  try {
    const model = await readData();
    document.title = `tidemark: ${commandOf(model.runs[0])}`;
    root.textContent = "";
    render(html`<${App} model=${model} />`, root);
    root.dataset.ready = "yes";
  } catch (error) {
    root.textContent = `The report cannot be shown: ${error.message}`;
    throw error;
  }
}

start();
