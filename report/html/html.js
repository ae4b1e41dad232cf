// html.js: the view library, named once.

export {html, render} from "htm/preact";
export {useEffect, useLayoutEffect, useMemo, useRef, useState}
  from "preact/hooks";

import {useState} from "preact/hooks";
import {keep, kept} from "./store.js";

// A state that the browser keeps.
export function useKept(name, fallback) {
  const [value, set] = useState(() => kept(name, fallback));
  return [value, next => {
    keep(name, next);
    set(next);
  }];
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}
