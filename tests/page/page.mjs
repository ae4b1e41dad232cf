// page.mjs: the HTML report in a browser without a head.  Prints TAP.
//
// usage: page.mjs --modules DIR --chromium FILE --tidemark FILE --lua FILE
//                 --units FILE --large FILE --out DIR
//
// Pictures at two widths and in both themes are left in DIR.

import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {execFileSync} from "node:child_process";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";
import zlib from "node:zlib";

import {EVIL, Maker} from "./profiles.mjs";
import {finish, ok, same} from "./tap.mjs";

const names = ["modules", "chromium", "tidemark", "lua", "units", "large",
               "out"];
const {values: opt} = parseArgs({options: Object.fromEntries(
  names.map(name => [name, {type: "string"}]))});
const require = createRequire(path.join(opt.modules, "package.json"));
const {chromium} = require("playwright-core");
const {bytesText} = await import(pathToFileURL(opt.units));

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
               "--no-first-run", "--disable-background-networking",
               "--disable-component-update", "--disable-sync"];
const SMALL_IN = 200;        // ms of work (see workOf) to open a small page
const OPENS_IN = 2000;       // and a large one, where that is so
const FILTERS_IN = 500;      // and to filter it there
const PATIENCE = 60000;      // ms that only a fault takes
const PAGE_MOST = 400 * 1024;

const make = new Maker({tidemark: opt.tidemark, lua: opt.lua,
                        folder: path.join(opt.out, "work")});

function dataOf(file) {
  const html = fs.readFileSync(make.path(file), "latin1");
  const [, text] = html.match(/id="data">\s*([\w+/=\s]*)<\/script>/);
  return {html, bytes: html.length - text.length,
          data: JSON.parse(zlib.inflateRawSync(Buffer.from(text, "base64")))};
}

// Opens a page and notes whatever it should not do.
async function openPage(browser, file, options = {}) {
  const context = await browser.newContext({
    viewport: {width: 1360, height: 900}, ...options});
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.faults = [];
  page.on("console", message => page.faults.push(message.text()));
  page.on("pageerror", error => page.faults.push(error.message));
  page.on("dialog", dialog => {
    page.faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", request => {
    if (!/^(file|data|blob):/.test(request.url()))
      page.faults.push(`network: ${request.url()}`);
  });
  await page.exposeFunction("hacked", () => page.faults.push("hacked"));
  page.meter = await context.newCDPSession(page);
  await page.meter.send("Performance.enable", {timeDomain: "threadTicks"});
  await page.goto(pathToFileURL(make.path(file)).href);
  await page.waitForSelector("#app[data-ready]");
  page.openedIn = await workOf(page);
  return page;
}

// How long the page's thread has run, in ms: other programs do not count.
async function workOf(page) {
  const {metrics} = await page.meter.send("Performance.getMetrics");
  return 1000 * metrics.find(m => m.name === "TaskDuration").value;
}

// How slow the machine is just now: its cores are shared.
async function slowness(browser) {
  const page = await openPage(browser, "new.html");
  await page.context().close();
  return Math.max(1, page.openedIn / SMALL_IN);
}

// Does it until it was quick enough: [what work it took, what it may take].
async function timed(browser, most, action) {
  let took, may;
  for (let i = 0; i < 5; i++) {
    may = most * await slowness(browser);
    took = await action();
    if (took < may)
      break;
  }
  return [took, may];
}

const rowsOf = page => page.$$eval(
  ".table-box tbody tr[aria-rowindex]:not(.section)",
  rows => rows.map(row => [...row.children].map(cell => cell.textContent)));

const countOf = async page =>
  parseInt((await page.textContent(".toolbar .count")).replace(/,/g, ""), 10);

const columnAt = (page, id) => page.$$eval(
  ".table-box thead button", (buttons, wanted) =>
    buttons.findIndex(b => b.dataset.sort === wanted), id);

async function column(page, id) {
  const at = await columnAt(page, id);
  return (await rowsOf(page)).map(row => row[at]);
}

const sizeOf = text => {
  const [, sign, number, unit] = text.match(/^([+−-]?)([\d.]+) ?(\w*)/) || [];
  const scale = {B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3}[unit] || 1;
  return (sign && sign !== "+" ? -1 : 1) * Number(number || 0) * scale;
};

const isFalling = list => list.every((v, i) => i === 0 || list[i - 1] >= v);

// ---- the data is that of the JSON -------------------------------------------

function checkData() {
  const {data, bytes} = dataOf("new.html");
  const report = make.json("report", "--json", "new.tide");
  ok(bytes < PAGE_MOST, `the page without data is below ${PAGE_MOST} bytes`,
     bytes);
  const text = i => data.strings[i];
  const t = data.runs[0].totals;
  same([t.alloc[0], t.blocks[0], t.freed[0], t.live[0]],
       ["alloc_bytes", "alloc_blocks", "freed_bytes", "live_bytes"].map(
         key => report.totals[key]), "totals are those of the JSON");
  const f = data.funcs;
  const funcs = new Map(f.name.map((name, i) =>
    [`${text(name)}|${text(f.source[i])}|${f.line[i]}`,
     [f.now.alloc[i], f.now.total[i], f.now.calls[i], f.now.worst[i],
      f.now.live[i]]]));
  same(report.functions.map(r => funcs.get(
    `${r.name}|${r.source}|${r.linedefined}`)),
       report.functions.map(r => [r.self_bytes, r.total_bytes, r.calls,
                                  r.max_call_bytes, r.live_bytes]),
       "functions are those of the JSON");
  const l = data.lines;
  const lines = new Map(l.line.map((line, i) =>
    [`${text(l.source[i])}|${line}`, [l.now.alloc[i], l.now.blocks[i],
                                      l.now.live[i], l.now.peak[i],
                                      [l.now.young[i], l.now.once[i],
                                       l.now.twice[i], l.now.older[i]]]]));
  same(report.lines.map(r => lines.get(`${r.source}|${r.line}`)),
       report.lines.map(r => [r.alloc_bytes, r.alloc_blocks, r.live_bytes,
                              r.peak_live_bytes, r.age_bytes]),
       "lines are those of the JSON");
  ok(report.lines.some(r => r.age_bytes[1] > 0),
     "some of it had survived a collection when it was freed");
  const sum = data.cells.now.alloc.reduce((a, b) => a + b, 0);
  same(sum, report.totals.alloc_bytes, "the tree adds up to the totals");
  return report;
}

// ---- the table -----------------------------------------------------------------

async function checkTable(page, report) {
  const cards = await page.$$eval(".card strong", all =>
    all.map(el => el.textContent));
  same(cards.slice(0, 3), ["alloc_bytes", "live_bytes", "peak_bytes"].map(
    key => bytesText(report.totals[key])), "the summary shows the totals");
  const best = report.functions.reduce((a, b) =>
    b.self_bytes > a.self_bytes ? b : a);
  const first = (await rowsOf(page))[0];
  same([first[await columnAt(page, "name")],
        first[await columnAt(page, "alloc")],
        first[await columnAt(page, "total")]],
       [best.name, bytesText(best.self_bytes), bytesText(best.total_bytes)],
       "the first row is what allocated most, with its figures");
  ok(isFalling((await column(page, "alloc")).map(sizeOf)),
     "rows are sorted by what they allocated");
  await page.click('[data-sort="live"]');
  ok(isFalling((await column(page, "live")).map(sizeOf)),
     "a click on a heading sorts by it");
  await page.click('[data-sort="live"]');
  ok(isFalling((await column(page, "live")).map(sizeOf).reverse()),
     "another click reverses");
  await page.click('[data-sort="alloc"]');
  await page.fill('[data-filter="name"]', "CHUR");
  same([await countOf(page), (await column(page, "name"))[0]], [1, "churn"],
       "a filter on names holds while it is typed");
  await page.fill('[data-filter="name"]', "");
  await page.fill('[data-filter="group"]', "string");
  ok((await column(page, "group")).every(g => g.includes("string")) &&
     await countOf(page) > 0, "a filter on groups");
  await page.fill('[data-filter="group"]', "");
  await page.fill('[data-filter="source"]', "app.lua:");
  ok((await column(page, "where")).every(s => s.includes("app.lua:")),
     "a filter on sources");
  await page.fill('[data-filter="source"]', "");
  const all = await countOf(page);
  await page.check('[data-option="small"]');
  const few = await countOf(page);
  ok(few < all && few > 0, "rows below 1 KiB can be hidden", `${few} ${all}`);
  await page.uncheck('[data-option="small"]');
}

async function checkSections(page) {
  await page.check('[data-option="sections"]');
  const sections = await page.$$(".section");
  ok(sections.length > 2, "sections by group");
  const before = (await rowsOf(page)).length;
  await page.click(".section button");
  ok((await rowsOf(page)).length < before &&
     await page.getAttribute(".section button", "aria-expanded") === "false",
     "a section folds");
  await page.click('[data-option="fold"]');
  const open = (await rowsOf(page)).length;
  await page.click('[data-option="fold"]');
  same([open, (await rowsOf(page)).length], [before, 0],
       "all sections unfold and fold");
  const total = await page.$eval(".section", row => row.textContent);
  ok(/MiB|KiB/.test(total), "a section has its subtotal", total);
  await page.click('[data-option="reset"]');
  await page.waitForFunction(() => !document.querySelector(".section"));
  await page.click(".menu summary");
  const n = (await page.$$(".table-box thead th")).length;
  await page.click(".menu-body label:has-text('Rate')");
  same((await page.$$(".table-box thead th")).length, n - 1,
       "a column can be left out");
  const ages = ["Died young", "Survived 1", "Survived 2", "Survived more"];
  for (const title of ages)
    await page.click(`.menu-body label:has-text('${title}')`);
  const heads = await page.$$eval(".table-box thead th", all =>
    all.map(el => el.textContent));
  ok(ages.every(title => heads.some(head => head.includes(title))),
     "ages at death can be shown", heads);
  const {data} = dataOf("new.html");
  const names = await column(page, "name");
  const f = data.funcs;
  const at = f.name.findIndex(name => data.strings[name] === names[0]);
  const shown = [];
  for (const id of ["young", "once", "twice", "older"])
    shown.push([(await column(page, id))[0], bytesText(f.now[id][at])]);
  ok(shown.every(([cell, text]) => cell === text), "... with their figures",
     shown);
  for (const title of ages)
    await page.click(`.menu-body label:has-text('${title}')`);
  await page.click(".menu summary");
  await page.focus(".grip");
  const width = await page.getAttribute(".grip", "aria-valuenow");
  await page.keyboard.press("ArrowRight");
  ok(Number(await page.getAttribute(".grip", "aria-valuenow")) >
     Number(width), "a column is resized by keys");
  await page.focus(".table-box");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  same(await page.$$eval("tr.chosen", rows =>
    rows.map(row => row.getAttribute("aria-rowindex"))), ["3"],
       "arrow keys choose a row");
  ok((await page.textContent(".details")).includes("Called from"),
     "the chosen function's callers are shown");
  await page.click('[data-option="copy"]');
  await page.waitForFunction(() => document.querySelector(
    '[data-option="copy"]').textContent === "Copied");
  ok(true, "a row is copied");
}

async function checkKept(page) {
  await page.click('[data-by="lines"]');
  await page.click('[data-sort="blocks"]');
  await page.fill('[data-filter="any"]', "app");
  await page.selectOption('[data-choice="theme"]', "dark");
  await page.reload();
  await page.waitForSelector("#app[data-ready]");
  same([await page.inputValue('[data-filter="any"]'),
        await page.getAttribute('[data-by="lines"]', "aria-checked"),
        await page.getAttribute('th:has([data-sort="blocks"])', "aria-sort"),
        await page.evaluate(() => document.documentElement.dataset.theme)],
       ["app", "true", "descending", "dark"],
       "what was chosen is kept after a reload");
  await page.click('[data-option="reset"]');
  same(await page.inputValue('[data-filter="any"]'), "", "reset");
  await page.click('[data-by="functions"]');
  await page.selectOption('[data-choice="theme"]', "auto");
}

// ---- the other views -----------------------------------------------------------

async function pressTab(page, id) {
  await page.click(`#tab-${id}`);
  await page.waitForSelector(`#tab-${id}[aria-selected="true"]`);
}

const told = page => page.textContent("[data-told]");

async function checkFlame(page, report) {
  await pressTab(page, "flame");
  await page.waitForFunction(() =>
    document.querySelector("canvas").height > 50);
  ok((await told(page)).startsWith(
    `all · ${bytesText(report.totals.alloc_bytes)} (100.0%)`),
     "the flame graph's root is everything", await told(page));
  await page.hover("canvas", {position: {x: 30, y: 50}});
  const hovered = await told(page);
  ok(/main chunk/.test(hovered), "a frame under the pointer is told of",
     hovered);
  await page.fill('[data-option="find"]', "churn");
  const churn = report.functions.find(f => f.name === "churn");
  const share = 100 * churn.total_bytes / report.totals.alloc_bytes;
  const found = await page.textContent("[data-found]");
  ok(Math.abs(parseFloat(found) - share) < 0.06, "frames are found",
     `${found} ${share}`);
  await page.focus("canvas");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"])
    await page.keyboard.press(key);
  await page.keyboard.press("Enter");
  await page.mouse.move(5, 5);
  const zoomed = await told(page);
  ok(!zoomed.startsWith("all") && await page.isEnabled(
    '[data-option="unzoom"]'), "keys go to a frame and zoom", zoomed);
  await page.keyboard.press("Escape");
  ok((await told(page)).startsWith("all"), "Escape shows all again");
  await page.selectOption('[data-choice="metric"]', "live");
  await page.waitForFunction(wanted => document.querySelector("[data-told]")
    .textContent.includes(wanted), bytesText(report.totals.live_bytes));
  ok(true, "the metric is switched");
  await page.selectOption('[data-choice="metric"]', "alloc");
  await page.check('[data-option="inverted"]');
  await page.hover("canvas", {position: {x: 30, y: 30}});
  const top = await told(page);
  const own = {};
  for (const {frames, alloc_bytes: bytes} of report.stacks) {
    const leaf = frames[frames.length - 1];
    const name = leaf.line > 0 ? `${leaf.function}:${leaf.line}`
      : leaf.function;
    own[name] = (own[name] || 0) + bytes;
  }
  const [most] = Object.entries(own).sort((a, b) => b[1] - a[1])[0];
  ok(top.startsWith(`${most} ·`), "inverted: what allocates most is on top",
     `${top}, not ${most}`);
  await page.uncheck('[data-option="inverted"]');
  await page.check('[data-option="roots"]');
  await page.selectOption('[data-choice="colour"]', "kind");
  ok((await page.textContent(".legend")).includes("storage"),
     "colours by kind have a legend");
  await page.uncheck('[data-option="roots"]');
}

async function checkOthers(page, report) {
  await pressTab(page, "time");
  await page.waitForSelector(".uplot canvas");
  const whole = await page.textContent("[data-span]");
  ok(whole.includes(`${report.gc.cycles.length} cycle`),
     "the timeline counts the cycles of the JSON", whole);
  const box = await (await page.$(".u-over")).boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + 60, {steps: 4});
  await page.mouse.up();
  ok((await page.textContent("[data-span]")).startsWith("From "),
     "a span of time is chosen");
  await pressTab(page, "source");
  const churn = report.lines.find(l => l.function === "churn");
  const line = await page.$$eval("tr", (rows, n) => rows.map(row =>
    [...row.children].map(c => c.textContent)).find(cells =>
      cells[cells.length - 2] === String(n)), churn.line);
  ok(line && line[0] === bytesText(churn.alloc_bytes) &&
     line[line.length - 1].includes('("x"):rep(400)'),
     "source lines have their bytes beside them", line);
  await pressTab(page, "kinds");
  const kinds = await page.$$eval(".kinds tbody tr", rows => rows.map(row =>
    [row.children[0].textContent, row.children[2].textContent]));
  same(kinds.find(([kind]) => kind === "string")[1],
       bytesText(report.kinds.string.alloc_bytes), "kinds");
  await page.focus("#tab-kinds");
  await page.keyboard.press("ArrowRight");
  same(await page.getAttribute("#tab-table", "aria-selected"), "true",
       "arrow keys go from view to view");
}

// ---- a diff --------------------------------------------------------------------

async function checkDiff(browser) {
  ok(make.call("diff", "--html", "diff.html", "old.tide", "new.tide")
    .status === 0, "a page of a diff is written");
  const page = await openPage(browser, "diff.html");
  const rows = await page.$$eval(".table-box tbody tr[aria-rowindex]", all =>
    all.map(row => [...row.children].map(cell =>
      [cell.textContent, cell.className])));
  const names = await columnAt(page, "name");
  const at = await columnAt(page, "alloc");
  const alloc = name => (rows.find(row => row[names][0] === name) || [])[at];
  const grown = alloc("string.rep");
  ok(grown && grown[0].startsWith("+") && /worse/.test(grown[1]),
     "what grew has a plus and is red", grown);
  const shrunk = alloc("shrinks");
  ok(shrunk && shrunk[0].startsWith("−") && /better/.test(shrunk[1]),
     "what shrank has a minus and is green", shrunk);
  const kept = alloc("keep");
  ok(kept && /same/.test(kept[1]),
     "what stayed below an edit is matched and grey", kept);
  ok(alloc("(new)new_only") && alloc("(gone)old_only"),
     "new and gone rows are marked");
  const diff = make.json("diff", "--json", "old.tide", "new.tide");
  const state = name => diff.functions.find(f => f.name === name).state;
  same(["keep", "new_only", "old_only"].map(state), ["both", "new", "gone"],
       "the JSON of the diff says the same");
  ok((await page.textContent(".diff-note")).includes("Base"),
     "both runs are named");
  await pressTab(page, "flame");
  await page.selectOption('[data-choice="side"]', "base");
  await page.fill('[data-option="find"]', "old_only");
  await page.waitForSelector("[data-found]");
  ok(parseFloat(await page.textContent("[data-found]")) > 0,
     "the flame graph shows what vanished");
  for (const id of ["time", "source", "kinds"])
    await pressTab(page, id);
  same(page.faults, [], "the diff's page does nothing else");
  await page.context().close();
}

// ---- what gcprofiler's window can do -------------------------------------------

const OLD = [["hook", "Think.Foo", "lua/foo.lua:12", 1024.5, 200, 12.25],
             ["hook", "Think.Bar", "lua/foo.lua:30", 64, 100, 1],
             ["hook", "Think.Bit", "lua/foo.lua:50", 9, 10, 1],
             ["timer", "save", "lua/save.lua:3", 10, 5, 4],
             ["net", "silent", "lua/net.lua:9", 0, 0, 0]];
const NEW = [["hook", "Think.Foo", "lua/foo.lua:12", 524.5, 100, 12.25],
             ["hook", "Think.Bar", "lua/foo.lua:30", 128, 100, 2],
             ["hook", "Think.Bit", "lua/foo.lua:50", 9.5, 10, 1],
             ["net", "silent", "lua/net.lua:9", 0, 0, 0]];

async function cellsOf(page) {
  const ids = await page.$$eval(".table-box thead button",
                                all => all.map(b => b.dataset.sort));
  return (await rowsOf(page)).map(row =>
    Object.fromEntries(ids.map((id, i) => [id, row[i]])));
}

async function checkSavedRuns(browser) {
  fs.writeFileSync(make.path("old.json"), JSON.stringify(OLD));
  fs.writeFileSync(make.path("new.json"), JSON.stringify(NEW));
  make.call("report", "--html", "saved.html", "old.json");
  make.call("diff", "--html", "runs.html", "old.json", "new.json");
  let page = await openPage(browser, "saved.html");
  await page.click('[data-by="targets"]');
  let rows = await cellsOf(page);
  const foo = rows.find(row => row.name === "Think.Foo");
  same([foo.group, foo.where, foo.alloc, foo.calls, foo.per_call, foo.worst],
       ["hook", "lua/foo.lua:12", "1.00 MiB", "200", "5.12 KiB", "12.3 KiB"],
       "a saved run: group, target, source, bytes, calls, B/call, peak");
  same(rows.find(row => row.name.endsWith("silent")).name,
       "nothing recordedsilent",
       "a target that recorded nothing is shown as such");
  ok((await page.textContent(".meta")).includes("5 targets"),
     "the number of targets is told");
  await page.check('[data-option="sections"]');
  const hook = await page.$$eval(".section", all => all.map(row =>
    row.textContent).find(text => text.includes("hook")));
  ok(/1\.07 MiB/.test(hook), "a group has the sum of its targets", hook);
  await page.context().close();
  page = await openPage(browser, "runs.html");
  await page.click('[data-by="targets"]');
  rows = await cellsOf(page);
  const of = name => rows.find(row => row.name.endsWith(name)) || {};
  same([of("Think.Foo").alloc, of("Think.Foo").calls, of("Think.Bar").alloc,
        of("Think.Bar").worst],
       ["−500 KiB", "−100", "+64.0 KiB", "+1.00 KiB"],
       "a diff: every column is a change");
  ok(of("save").name === "(gone)save" && of("save").alloc === "−10.0 KiB",
     "what vanished is shown as gone", of("save"));
  ok(/length not known[\s\S]*compare B\/call and Peak call/.test(
    await page.textContent(".diff-note")), "which columns are honest is told");
  const all = await countOf(page);
  await page.check('[data-option="small"]');
  rows = await cellsOf(page);
  ok(rows.length < all && !rows.some(row => row.name === "Think.Bit") &&
     rows.some(row => row.name.endsWith("save")),
     "hiding below 1 KiB goes by the change", rows.map(row => row.name));
  same(page.faults, [], "the page of saved runs does nothing else");
  await page.context().close();
}

async function checkWindow(browser) {
  const page = await openPage(browser, "new.html",
                              {viewport: {width: 700, height: 700}});
  const ids = await page.$$eval(".table-box thead button",
                                all => all.map(b => b.dataset.sort));
  const wrong = [];
  for (const id of ids) {
    const sorted = () => page.getAttribute(`th:has([data-sort="${id}"])`,
                                           "aria-sort");
    await page.click(`[data-sort="${id}"]`);
    const first = [await sorted(), await column(page, id)];
    await page.click(`[data-sort="${id}"]`);
    const second = [await sorted(), await column(page, id)];
    if (first[0] === second[0] || first[0] === "none" || second[0] === "none" ||
        first[1][0] === second[1][0] && new Set(first[1]).size > 1 &&
        id !== "share")
      wrong.push([id, first[0], second[0], first[1][0], second[1][0]]);
  }
  same(wrong, [], "every column sorts, and reverses");
  const scrolled = await page.$eval(".table-box", box => {
    box.scrollLeft = 10000;
    return [box.scrollLeft, box.scrollWidth - box.clientWidth];
  });
  ok(scrolled[0] > 0 && Math.abs(scrolled[0] - scrolled[1]) <= 1,
     "a narrow window scrolls sideways", scrolled);
  await page.$eval(".table-box", box => { box.scrollLeft = 0; });
  const width = async () =>
    Number(await page.getAttribute(".grip", "aria-valuenow"));
  const before = await width();
  const grip = await (await page.$(".grip")).boundingBox();
  await page.mouse.move(grip.x + grip.width / 2, grip.y + grip.height / 2);
  await page.mouse.down();
  await page.mouse.move(grip.x + grip.width / 2 + 60, grip.y + 5, {steps: 3});
  await page.mouse.up();
  same(await width(), before + 60, "a column is dragged wider");
  await page.click('[data-option="reset"]');
  same(await width(), before, "and reset");
  same(page.faults, [], "that does nothing else");
  await page.context().close();
}

// ---- harm and size ----------------------------------------------------------------

async function checkHostile(browser) {
  ok(make.call("report", "--html", "hostile.html", "hostile.tide")
    .status === 0, "a page of hostile names is written");
  const {html} = dataOf("hostile.html");
  ok(!html.includes("hacked("), "no name stands in the page's own text");
  const page = await openPage(browser, "hostile.html");
  const shown = await column(page, "name");
  ok(shown.some(name => name === EVIL), "hostile names are shown as text",
     shown.join("\n"));
  for (const id of ["flame", "time", "source", "kinds"]) {
    await pressTab(page, id);
    await page.waitForTimeout(50);
  }
  await pressTab(page, "source");
  const text = await page.textContent(".source-box");
  ok(text.includes("<img src=x onerror=hacked(3)>"),
     "hostile source lines are shown as text");
  same(await page.$$eval("#app img, #app script", all => all.length), 0,
       "nothing of them became an element");
  same(page.faults, [], "hostile names do nothing");
  await page.context().close();
}

// Targets: their rows and the sums of their groups are those of the report.
async function checkTargets(browser) {
  make.call("report", "--html", "groups.html", "groups.tide");
  const report = make.json("report", "--json", "groups.tide");
  const {targets: t, strings} = dataOf("groups.html").data;
  const found = new Map(t.name.map((name, i) =>
    [[strings[t.group[i]], strings[name], t.line[i]].join("|"),
     [t.now.alloc[i], t.now.calls[i], t.now.worst[i], t.now.live[i]]]));
  same(report.targets.map(r => found.get([r.group, r.target, r.line].join("|"))),
       report.targets.map(r => [r.alloc_bytes, r.calls, r.max_call_bytes,
                                r.live_bytes]),
       "targets are those of the JSON");
  const page = await openPage(browser, "groups.html");
  same(await page.getAttribute('[data-by="targets"]', "aria-checked"), "true",
       "targets come first where the program has some");
  const row = report.targets.find(r => r.target === "churn");
  await page.fill('[data-filter="name"]', "churn");
  const text = await page.textContent("tbody tr[aria-rowindex]");
  ok(text.includes("garbage") && text.includes(bytesText(row.alloc_bytes)),
     "a target has its bytes", text);
  await page.fill('[data-filter="name"]', "");
  await page.check('[data-option="sections"]');
  await page.click('[data-option="fold"]');
  const sections = await page.$$eval("tr.section", rows => rows.map(
    r => [r.querySelector("button").title, r.textContent]));
  const garbage = report.groups.find(g => g.group === "garbage");
  ok(sections.some(([name, text]) => name === "garbage" &&
                   text.includes(bytesText(garbage.alloc_bytes))),
     "a group's subtotal is its sum", sections);
  ok(sections.some(([name]) => name === "kept <b>"), "names are text",
     sections);
  await page.click('[data-option="reset"]');
  await page.context().close();
}

async function checkNoSource(browser) {
  make.call("report", "--html", "bare.html", "--no-source", "new.tide");
  const {data} = dataOf("bare.html");
  same([data.sources.length, JSON.stringify(data).includes(":rep(400)")],
       [0, false], "--no-source leaves sources out");
  const page = await openPage(browser, "bare.html");
  await pressTab(page, "source");
  ok((await page.textContent(".panel")).includes("not in this page"),
     "and the page says so");
  same(page.faults, [], "and does nothing else");
  await page.context().close();
}

async function checkFailure(browser) {
  make.run("oom/app.lua", `local kept = {}
print(pcall(function()
  for i = 1, 1e7 do kept[i] = {"</script>"} end
end))
`, "oom.tide", "--set", "limit=2M");
  make.call("report", "--html", "oom.html", "oom.tide");
  const page = await openPage(browser, "oom.html");
  await pressTab(page, "time");
  const text = await page.textContent("[data-failure]");
  ok(text.includes("memory ran out") && text.includes("limit was 2.00 MiB"),
     "when memory ran out", text);
  const tables = await page.$$eval("[data-failure] table", all => all.map(
    table => [...table.querySelectorAll("tbody tr")].map(row =>
      [...row.children].map(cell => cell.textContent))));
  const [share, held, , where] = tables[0][0];
  ok(parseFloat(share) > 90 && held.endsWith("MiB") &&
     where.includes("app.lua:3"), "the line that held the heap", tables[0]);
  ok(tables[1].some(row => parseFloat(row[0]) > 90 &&
                           row[3].endsWith("app.lua")),
     "and its group", tables[1]);
  const marks = await page.$$eval("[data-marks] tbody tr", rows =>
    rows.map(row => row.lastElementChild.textContent));
  same(marks, ["out of memory"], "it is a mark");
  await page.screenshot({path: path.join(opt.out, "oom.png")});
  same(page.faults, [], "and nothing else happens");
  await page.context().close();
}

async function checkLarge(browser) {
  execFileSync(opt.large, [make.path("large.tide"), "100000"]);
  make.call("report", "--html", "large.html", "large.tide");
  let page;
  let [took, may] = await timed(browser, OPENS_IN, async () => {
    if (page)
      await page.context().close();
    page = await openPage(browser, "large.html");
    return page.openedIn;
  });
  ok(took < may, "100,000 nodes open in time", `${took} of ${may}`);
  const all = await countOf(page);
  [took, may] = await timed(browser, FILTERS_IN, async () => {
    await page.fill('[data-filter="any"]', "");
    const start = await workOf(page);
    await page.fill('[data-filter="any"]', "7");
    await page.waitForFunction(n => parseInt(document.querySelector(
      ".toolbar .count").textContent.replace(/,/g, ""), 10) < n, all);
    return await workOf(page) - start;
  });
  ok(took < may, "and filter at once", `${took} of ${may}`);
  await pressTab(page, "flame");
  await page.check('[data-option="inverted"]');
  await pressTab(page, "time");
  same(page.faults, [], "and do nothing else");
  await page.context().close();
}

async function takePictures(browser) {
  for (const file of ["new", "diff"])
    for (const colorScheme of ["light", "dark"])
      for (const width of [1360, 420]) {
        const page = await openPage(browser, `${file}.html`, {
          colorScheme, viewport: {width, height: 900}});
        for (const id of ["table", "flame", "time", "source", "kinds"]) {
          await pressTab(page, id);
          await page.waitForTimeout(60);
          await page.screenshot({path: path.join(
            opt.out, `${file}-${id}-${colorScheme}-${width}.png`)});
        }
        const wide = await page.evaluate(() =>
          document.documentElement.scrollWidth > innerWidth);
        ok(!wide, `${file}, ${colorScheme}, ${width}: fits its width`);
        same(page.faults, [], `${file}, ${colorScheme}, ${width}: no error`);
        await page.context().close();
      }
}

async function main() {
  make.runAll();
  ok(make.call("report", "--html", "new.html", "new.tide").status === 0,
     "a page is written");
  const report = checkData();
  const browser = await chromium.launch({executablePath: opt.chromium,
                                         args: FLAGS});
  const page = await openPage(browser, "new.html");
  await checkTable(page, report);
  await checkSections(page);
  await checkKept(page);
  await checkFlame(page, report);
  await checkOthers(page, report);
  same(page.faults, [], "no error, no network, nothing on the console");
  await page.context().close();
  await checkDiff(browser);
  await checkSavedRuns(browser);
  await checkWindow(browser);
  await checkHostile(browser);
  await checkTargets(browser);
  await checkNoSource(browser);
  await checkFailure(browser);
  await checkLarge(browser);
  await takePictures(browser);
  await browser.close();
}

try {
  await main();
} catch (error) {
  ok(false, "the test went to its end", error.stack);
}
finish();
process.exit();
