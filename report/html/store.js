// store.js: what the reader of the page has chosen, kept in the browser.

const KEY = "tidemark-report";

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || {};
  } catch {
    return {}; // private windows and some browsers keep nothing for files
  }
}

const values = read();

export function kept(name, fallback) {
  const value = values[name];
  const isSame = value !== undefined && value !== null &&
    typeof value === typeof fallback;
  return isSame ? value : fallback;
}

export function keep(name, value) {
  values[name] = value;
  try {
    localStorage.setItem(KEY, JSON.stringify(values));
  } catch {
    // as above: the choice holds until the page is left
  }
}
