// summary.js: the head of the page: findings first, then the figures of the
// whole run.

import {isNoise} from "./columns.js";
import {html} from "./html.js";
import {bytesText, changeText, countText, plain, secondsText, shareText}
  from "./units.js";

const SHOWN = 3; // findings; the others are folded ...
const ALIKE = 2; // ... and so are more than that of one kind
const TIERS = ["exact", "partly exact", "public API only"];

function Finding({finding, model, open}) {
  const line = finding.line;
  const {lines} = model.raw;
  const where = line > 0 ? {source: lines.source[line],
                            line: lines.line[line]} : null;
  return html`<li class=${`finding ${plain(finding.kind)}`}>
    <span class="kind">${plain(finding.kind)}</span>
    <span class="text">${plain(finding.text, 600)}</span>
    ${where && html`<button type="button" class="link"
      aria-label=${`Show ${model.texts[where.source]}:${where.line}`}
      onClick=${() => open(where)}>show the line</button>`}
  </li>`;
}

// [those to be shown, the others]
function divide(findings) {
  const shown = [];
  const others = [];
  for (const finding of findings) {
    const alike = shown.filter(other => other.kind === finding.kind).length;
    const list = shown.length < SHOWN && alike < ALIKE ? shown : others;
    list.push(finding);
  }
  return [shown, others];
}

export function Findings({model, open}) {
  const all = model.runs[0].findings;
  const [first, others] =
    divide(all.filter(finding => finding.kind !== "note"));
  const notes = all.filter(finding => finding.kind === "note");
  if (all.length === 0)
    return null;
  const list = findings => html`<ul class="findings">${findings.map(
    (finding, i) => html`<${Finding} key=${i} finding=${finding} model=${model}
      open=${open} />`)}</ul>`;
  return html`<section aria-label="Findings" class="findings-box">
    ${first.length > 0 && list(first)}
    ${others.length > 0 && html`<details><summary>${others.length} more
      ${" "}${others.length === 1 ? "finding" : "findings"}</summary>
      ${list(others)}</details>`}
    ${notes.length > 0 && html`<details open=${first.length === 0}>
      <summary>${notes.length} ${notes.length === 1 ? "note" : "notes"} on how
        exact the figures are</summary>${list(notes)}</details>`}
  </section>`;
}

function Card({title, value, note, change}) {
  return html`<div class="card">
    <dt>${title}</dt><dd><strong>${value}</strong>
    ${change && html`<span class=${`change ${change.look}`}>${change.text}
      </span>`}
    ${note && html`<span class="note">${note}</span>`}</dd></div>`;
}

function changeOf(now, base, unit) {
  if (base === undefined)
    return null;
  const look = isNoise(now, base) ? "same" : now > base ? "worse" : "better";
  const share = base > 0 ? ` (${now >= base ? "+" : "−"}${
    Math.abs(100 * (now - base) / base).toFixed(1)}%)` : "";
  return {look, text: changeText(unit, now - base) + share};
}

export function Summary({model}) {
  const [run, base] = model.runs;
  const [t, b] = model.totals;
  const gc = run.gc;
  const other = key => b ? b[key] : undefined;
  return html`<dl class="cards" aria-label="Summary">
    <${Card} title="Allocated" value=${bytesText(t.alloc)}
      note=${`${countText(t.blocks)} blocks`}
      change=${changeOf(t.alloc, other("alloc"), "bytes")} />
    <${Card} title="Live at the end" value=${bytesText(t.live)}
      note=${`${countText(t.live_blocks)} blocks`}
      change=${changeOf(t.live, other("live"), "bytes")} />
    <${Card} title="Peak" value=${bytesText(t.peak)}
      note=${run.rss_peak > 0 ? `process ${bytesText(run.rss_peak)} RSS` : ""}
      change=${changeOf(t.peak, other("peak"), "bytes")} />
    <${Card} title="Freed" value=${bytesText(t.freed)}
      note=${`${shareText(t.young, t.alloc)} died young`}
      change=${changeOf(t.freed, other("freed"), "bytes")} />
    <${Card} title="Rate" value=${`${bytesText(gc.kb_per_s * 1024)}/s`}
      note=${`${gc.cycles_per_min >= 10
        ? countText(gc.cycles_per_min) : gc.cycles_per_min.toFixed(1)
        } cycles/min`}
      change=${changeOf(gc.kb_per_s * 1024,
                        base && base.gc.kb_per_s * 1024, "rate")} />
    <${Card} title="Cycles" value=${countText(gc.cycles)}
      note=${gc.cycles > 0 ? `${gc.mode}, ${bytesText(gc.average_kb * 1024)
        } freed by each` : "none was seen"}
      change=${changeOf(gc.cycles, base && base.gc.cycles, "count")} />
    <${Card} title="Duration" value=${secondsText(run.seconds)}
      note=${run.complete ? "finished" : "not finished"}
      change=${base && {look: "", text: `base ${secondsText(base.seconds)}`}} />
    <${Card} title="Tier" value=${TIERS[run.tier] || "not known"}
      note=${plain(run.tier_reason)} />
  </dl>`;
}

export function commandOf(run) {
  const text = run.command.length > 0 ? run.command.join(" ") : run.program;
  return plain(text, 400);
}

// What a diff compares, and which columns are fair to compare.
export function DiffNote({model}) {
  const [run, base] = model.runs;
  const ratio = base.seconds > 0 ? run.seconds / base.seconds : 0;
  const isFair = ratio > 0.9 && ratio < 1.1;
  const isKnown = run.seconds > 0 && base.seconds > 0;
  const told = r => `${r.seconds > 0 ? secondsText(r.seconds)
    : "length not known"}, ${
    bytesText(r.totals.alloc[0])} in ${countText(r.totals.blocks[0])} blocks`;
  return html`<section class="diff-note" aria-label="What is compared">
    <p class="run"><b>New run</b> ${told(run)}${" "}
      <code title=${commandOf(run)}>${commandOf(run)}</code></p>
    <p class="run"><b>Base</b> ${told(base)}${" "}
      <code title=${commandOf(base)}>${commandOf(base)}</code></p>
    <p>${!isKnown
      ? "How long a run took is not known: compare B/call and Peak call."
      : isFair
      ? "The runs took about as long: all columns may be compared."
      : "The runs differ in length: compare Rate, B/call and Peak call; totals grow with the time."}
      ${" "}A change within 1 % is what two identical runs may differ by, and is
      grey. Red and + is more, green and − is less. ${model.raw.has_texts
      ? "Lines are matched by their text."
      : "Lines are matched by their place in their function."}</p>
  </section>`;
}

// Those that the program or a rule has named.
function targetsText(model) {
  const n = model.raw.targets.what.filter(what => what === 1 || what === 2)
    .length;
  return n > 0 ? `${countText(n)} ${n === 1 ? "target" : "targets"}` : "";
}

export function Meta({model}) {
  const run = model.runs[0];
  const parts = [plain(run.lua), `pid ${run.pid}`,
                 `${run.states} ${run.states === 1 ? "state" : "states"}`,
                 targetsText(model),
                 new Date(run.started).toISOString().slice(0, 19)
                   .replace("T", " ") + " UTC"];
  return html`<p class="meta">${parts.filter(p => p).join(" · ")}</p>`;
}
