// marks.js: marks of the program's time, and what held the heap when memory ran
// out.

import {html} from "./html.js";
import {bytesText, countText, plain, secondsText, shareText} from "./units.js";

const ROWS_MOST = 100;
const LABEL_MOST = 24;

// Lines at the marks, each with its name where there is room for it.
export function drawMarks(marks, css) {
  return plot => {
    const {ctx, bbox} = plot;
    const unit = devicePixelRatio || 1;
    ctx.save();
    ctx.font = `${11 * unit}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    let free = bbox.left;
    for (const mark of marks) {
      const x = plot.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width)
        continue;
      ctx.strokeStyle = ctx.fillStyle =
        css(mark.failed ? "--worse" : "--soft");
      ctx.lineWidth = 1.5 * unit;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const text = plain(mark.label, LABEL_MOST);
      const width = ctx.measureText(text).width + 6 * unit;
      const isLast = x + width > bbox.left + bbox.width;
      const left = isLast ? x - width : x;
      if (left < free)
        continue;
      ctx.fillText(text, left + 3 * unit, bbox.top + 2 * unit);
      free = left + width + 4 * unit;
    }
    ctx.restore();
  };
}

export function Marks({marks}) {
  if (marks.length === 0)
    return null;
  return html`<div data-marks><h3>Marks</h3>
    <div class="scroll"><table class="small">
      <thead><tr><th scope="col">At</th><th scope="col">Live</th>
        <th scope="col">Allocated since the mark before</th>
        <th scope="col" class="text">Mark</th></tr></thead>
      <tbody>${marks.slice(-ROWS_MOST).map((mark, k, shown) => {
        const i = marks.length - shown.length + k;
        return html`<tr key=${i}><td>${secondsText(mark.at)}</td>
          <td>${bytesText(mark.live)}</td><td>${bytesText(mark.since)}</td>
          <td class="text">${plain(mark.label)}</td></tr>`;
      })}</tbody></table></div>
    ${marks.length > ROWS_MOST && html`<p class="foot">The last ${ROWS_MOST}
      ${" "}of ${countText(marks.length)}.</p>`}
  </div>`;
}

function Rows({title, rows, held}) {
  return html`<div class="scroll"><table class="small">
    <thead><tr><th scope="col">Share</th><th scope="col">Held</th>
      <th scope="col">Blocks</th>
      <th scope="col" class="text">${title}</th></tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${i}>
      <td>${shareText(row.bytes, held)}</td><td>${bytesText(row.bytes)}</td>
      <td>${countText(row.blocks)}</td>
      <td class="text">${plain(row.where)}</td></tr>`)}</tbody></table></div>`;
}

export function Failure({failure}) {
  if (!failure)
    return null;
  return html`<div data-failure><h3>What held the heap when memory ran out</h3>
    <p>After ${secondsText(failure.at)}, at ${plain(failure.where)}:${" "}
      ${bytesText(failure.want)} more were asked for, ${
        bytesText(failure.held)} were held; ${failure.limit > 0
        ? `the limit was ${bytesText(failure.limit)}`
        : "the limit was the host’s or the system’s"}.</p>
    <${Rows} title="Line" rows=${failure.lines} held=${failure.held} />
    <${Rows} title="Group" rows=${failure.groups} held=${failure.held} />
  </div>`;
}
