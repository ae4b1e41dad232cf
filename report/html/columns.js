// columns.js: the columns of the table: what they show and sort by.

import {changeText, unitText} from "./units.js";

const text = (id, title, width, key, help) =>
  ({id, title, width, help, isText: true, value: row => row[key]});

const figure = (id, title, width, unit, key, help, isFair) =>
  ({id, title, width, unit, help, isFair, value: (row, side) =>
    row[side][key] || 0});

export const COLUMNS = [
  text("group", "Group", 140, "group",
       "What the program has named, a module, or a file"),
  text("name", "Function", 200, "name", "Function, or target"),
  text("where", "Source", 170, "where", "Where it is defined, or the line"),
  figure("share", "Share", 76, "share", "share",
         "Of all bytes allocated in the run"),
  figure("alloc", "Total", 96, "bytes", "alloc",
         "Bytes allocated by the function or the line itself; by a target " +
         "with what it called, less other targets"),
  figure("total", "With callees", 122, "bytes", "total",
         "Bytes allocated by the function and by what it called; each once"),
  figure("rate", "Rate", 98, "rate", "rate",
         "Allocated bytes per second of the run", true),
  figure("calls", "Calls", 92, "count", "calls",
         "Calls that allocated; of a line: those of its function"),
  figure("per_call", "B/call", 92, "bytes", "per_call",
         "Bytes per call: functions with callees, others as in Total", true),
  figure("worst", "Peak call", 100, "bytes", "worst",
         "Bytes of the worst single call of the function, with callees", true),
  figure("live", "Live", 96, "bytes", "live", "Still held at the end"),
  figure("peak", "Live at peak", 112, "bytes", "peak",
         "Held when the heap stood highest"),
  figure("young", "Died young", 100, "bytes", "young",
         "Freed before they survived a collection cycle"),
  figure("once", "Survived 1", 100, "bytes", "once",
         "Freed when they had survived one collection cycle"),
  figure("twice", "Survived 2", 100, "bytes", "twice",
         "Freed when they had survived two collection cycles"),
  figure("older", "Survived more", 122, "bytes", "older",
         "Freed when they had survived three collection cycles and more"),
  figure("blocks", "Blocks", 92, "count", "blocks", "Blocks allocated"),
];

export const HIDDEN_AT_FIRST = ["young", "once", "twice", "older"];

export const columnOf = id => COLUMNS.find(column => column.id === id);

// What identical runs differ by.
export const NOISE = 0.01;

export const isNoise = (now, base) =>
  Math.abs(now - base) <= NOISE * Math.max(Math.abs(now), Math.abs(base));

// The number a cell stands for.  mode: "change", "now" or "base".
export function cellValue(column, row, mode) {
  if (mode === "change")
    return column.value(row, "now") - column.value(row, "base");
  return column.value(row, mode === "base" ? "base" : "now");
}

export function cellText(column, value, mode) {
  if (column.isText)
    return value;
  return mode === "change" ? changeText(column.unit, value)
    : unitText[column.unit](value);
}

// "worse", "better", "same" or "": what a change is.
export function changeClass(column, row) {
  const now = column.value(row, "now");
  const base = column.value(row, "base");
  const isTooSmall = column.unit === "share" && Math.abs(now - base) < 0.0005;
  if (isTooSmall || isNoise(now, base))
    return "same";
  return now > base ? "worse" : "better";
}
