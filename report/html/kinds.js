// kinds.js: what the bytes are: strings, tables, storage ...

import {isNoise} from "./columns.js";
import {html} from "./html.js";
import {bytesText, changeText, countText, shareText} from "./units.js";

const WORDS = {
  string: "strings", table: "tables without their storage",
  function: "closures, of Lua and of C", userdata: "full userdata",
  thread: "coroutines, with first stack", upvalue: "captured variables",
  proto: "prototypes without their code",
  storage: "array and hash parts of tables",
  stack: "Lua stacks that were resized", callinfo: "call records",
  code: "code, constants, line tables",
  buffer: "C buffers; not in collectgarbage(\"count\")",
  other: "string table, work space",
};

export function Kinds({model}) {
  const [now, base] = model.runs.map(run => run.kinds);
  const rows = model.kinds.map((name, i) => ({name, i}))
    .filter(({i}) => now.alloc[i] || now.live[i] || base &&
                     (base.alloc[i] || base.live[i]))
    .sort((a, b) => now.alloc[b.i] - now.alloc[a.i]);
  const most = Math.max(...rows.map(({i}) => now.alloc[i]), 1);
  const change = (key, i) => {
    const by = now[key][i] - base[key][i];
    const look = isNoise(now[key][i], base[key][i]) ? "same"
      : by > 0 ? "worse" : "better";
    return html`<td class=${`figure ${look}`}>${changeText("bytes", by)}</td>`;
  };
  return html`<section class="panel" aria-label="Kinds"><div class="scroll">
    <table class="small kinds">
      <thead><tr><th scope="col" class="text">Kind</th>
        <th scope="col">Share</th><th scope="col">Allocated</th>
        ${base && html`<th scope="col">Change</th>`}
        <th scope="col">Blocks</th><th scope="col">Live</th>
        ${base && html`<th scope="col">Change</th>`}
        <th scope="col">Live at peak</th>
        <th scope="col" class="text">What</th></tr></thead>
      <tbody>${rows.map(({name, i}) => html`<tr key=${name}>
        <th scope="row" class="text">${name}</th>
        <td class="figure"><span class="bar" aria-hidden="true"
          style=${{width: `${100 * now.alloc[i] / most}%`}}></span>
          <span class="value">${shareText(now.alloc[i],
                                          model.totals[0].alloc)}</span></td>
        <td class="figure">${bytesText(now.alloc[i])}</td>
        ${base && change("alloc", i)}
        <td class="figure">${countText(now.blocks[i])}</td>
        <td class="figure">${bytesText(now.live[i])}</td>
        ${base && change("live", i)}
        <td class="figure">${bytesText(now.peak[i])}</td>
        <td class="text soft">${WORDS[name] || ""}</td></tr>`)}</tbody>
    </table></div></section>`;
}
