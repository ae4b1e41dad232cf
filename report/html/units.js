// units.js: numbers as text, the same way as report/units.c writes them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function threeDigits(value) {
  return value >= 99.95 ? value.toFixed(0)
    : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function bytesText(bytes) {
  const sign = bytes < 0 ? "-" : "";
  let value = Math.abs(bytes);
  if (value < 1024) {
    const whole = value === 0 || value >= 10 || Number.isInteger(value);
    return `${sign}${whole ? Math.round(value) : value.toFixed(1)} B`;
  }
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${sign}${threeDigits(value)} ${UNITS[unit]}`;
}

export function countText(n) {
  const value = Math.abs(n);
  if (value < 1e7)
    return Math.round(n).toLocaleString("en-US");
  const sign = n < 0 ? "-" : "";
  return value < 1e9 ? `${sign}${threeDigits(value / 1e6)} M`
    : `${sign}${threeDigits(value / 1e9)} G`;
}

export function shareText(part, whole) {
  if (whole === 0)
    return "-";
  const share = 100 * part / whole;
  return share > 0 && share < 0.05 ? "<0.1%" : `${share.toFixed(1)}%`;
}

export function secondsText(seconds) {
  if (seconds < 0.001)
    return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1)
    return `${threeDigits(seconds * 1e3)} ms`;
  if (seconds < 60)
    return `${threeDigits(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60)
    return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const unitText = {
  bytes: bytesText,
  count: countText,
  rate: v => `${bytesText(v)}/s`,
  share: v => v === 0 ? "0%" : v > 0 && v < 0.0005 ? "<0.1%"
    : `${(100 * v).toFixed(1)}%`,
};

// A change has its sign, whatever its colour.
export function changeText(unit, change) {
  if (unit === "share" && Math.abs(change) < 0.0005)
    return "0";
  const text = unitText[unit](Math.abs(change));
  return change > 0 ? `+${text}` : change < 0 ? `−${text}` : "0";
}

// Names may hold anything: what would change the order or the shape of a line
// is shown as a mark, and the text is cut.
// eslint-disable-next-line no-control-regex
const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function plain(text, most = 300) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replace(HARMFUL, "\ufffd");
}

// Of a path that is too long the end says most.
export function tail(text, most) {
  return text.length <= most ? text
    : `\u2026${text.slice(text.length - Math.max(4, most) + 1)}`;
}

// "function <a/long/path/app.lua:12>" is "function <app.lua:12>".
export function shortName(name) {
  return name.replace(/^function <.*\/([^/]+)>$/, "function <$1>");
}
