// tree.js: the calling context tree, from the callers down or from the callees
// up.  Both answer the same questions, so that the flame graph does not care.
//
// A node from above is a number.  A node from below is an object that holds
// the nodes it stands for; its children are made when they are asked for.

const COROUTINES = new Set(["coroutine.resume", "coroutine.wrap"]);

export function makeTree(model, {metric, hasRoots}) {
  const {nodes, cells, funcs} = model.raw;
  const n = nodes.parent.length;
  const parent = Int32Array.from(nodes.parent);
  if (hasRoots)
    for (let i = 1; i < n; i++)
      if (COROUTINES.has(model.texts[funcs.name[nodes.func[nodes.parent[i]]]]))
        parent[i] = 0;
  const own = [new Float64Array(n), new Float64Array(n)];
  const byKind = model.kinds.map(() => null);
  const sides = [cells.now, cells.base];
  for (let side = 0; side < 2; side++) {
    if (!sides[side])
      continue;
    const values = sides[side][metric];
    for (let c = 0; c < values.length; c++) {
      own[side][cells.node[c]] += values[c];
      if (side > 0)
        continue;
      const k = cells.kind[c];
      byKind[k] = byKind[k] || new Float64Array(n);
      byKind[k][cells.node[c]] += values[c];
    }
  }
  // A cut moves a node below one with a higher number nowhere: parents of cut
  // nodes are the root, so parents still come first.
  const below = own.map(values => Float64Array.from(values));
  for (let i = n - 1; i > 0; i--) {
    below[0][parent[i]] += below[0][i];
    below[1][parent[i]] += below[1][i];
    for (const kind of byKind)
      if (kind)
        kind[parent[i]] += kind[i];
  }
  return {n, parent, own, below, kind: mainKinds(byKind, n),
          func: nodes.func, line: nodes.line, state: nodes.in};
}

// The kind that most bytes of a node and below are of.
function mainKinds(byKind, n) {
  const out = new Int8Array(n);
  const most = new Float64Array(n);
  byKind.forEach((values, kind) => {
    for (let i = 0; values && i < n; i++)
      if (values[i] > most[i]) {
        most[i] = values[i];
        out[i] = kind;
      }
  });
  return out;
}

const heavier = (a, b) => b.weight - a.weight;

// side: 0 the new run, 1 the base: whose bytes are the widths.
export function fromAbove(tree, side) {
  const first = new Int32Array(tree.n).fill(-1);
  const next = new Int32Array(tree.n).fill(-1);
  for (let i = tree.n - 1; i > 0; i--) {
    next[i] = first[tree.parent[i]];
    first[tree.parent[i]] = i;
  }
  const cache = new Map();
  const wrap = i => {
    let node = cache.get(i);
    if (!node) {
      node = {
        id: i, func: tree.func[i], line: tree.line[i], kind: tree.kind[i],
        weight: tree.below[side][i], now: tree.below[0][i],
        base: tree.below[1][i], own: tree.own[side][i], kids: null,
      };
      cache.set(i, node);
    }
    return node;
  };
  const children = node => {
    if (node.kids)
      return node.kids;
    node.kids = [];
    for (let i = first[node.id]; i >= 0; i = next[i])
      if (tree.below[side][i] > 0) {
        const kid = wrap(i);
        kid.up = node;
        node.kids.push(kid);
      }
    return node.kids.sort(heavier);
  };
  return {root: wrap(0), children};
}

export function fromBelow(tree, side) {
  const group = (entries, up, step) => {
    const found = new Map();
    for (const entry of entries) {
      const at = step(entry);
      if (at <= 0)
        continue;
      const key = tree.func[at] * 0x80000000 + tree.line[at];
      let node = found.get(key);
      if (!node) {
        node = {id: `${up.id}/${key}`, func: tree.func[at],
                line: tree.line[at], kind: tree.kind[at], weight: 0, now: 0,
                base: 0, own: 0, up, entries: [], kids: null};
        found.set(key, node);
      }
      node.entries.push({at, now: entry.now, base: entry.base});
      node.now += entry.now;
      node.base += entry.base;
      node.weight += side === 0 ? entry.now : entry.base;
    }
    return [...found.values()].filter(node => node.weight > 0).sort(heavier);
  };
  const root = {id: "", func: 0, line: 0, kind: 0, weight: 0, now: 0, base: 0,
                own: 0, kids: null, entries: []};
  for (let i = 1; i < tree.n; i++)
    if (tree.own[0][i] > 0 || tree.own[1][i] > 0)
      root.entries.push({at: i, now: tree.own[0][i], base: tree.own[1][i]});
  for (const entry of root.entries) {
    root.now += entry.now;
    root.base += entry.base;
  }
  root.weight = side === 0 ? root.now : root.base;
  const children = node => {
    if (!node.kids)
      node.kids = group(node.entries, node, node === root
        ? entry => entry.at : entry => tree.parent[entry.at]);
    return node.kids;
  };
  return {root, children};
}

// Who calls a function: [{func, line, now, base}], heaviest first.  Of calls
// inside a call of the same function only the outermost counts.
export function callersOf(tree, func) {
  const found = new Map();
  for (let i = 1; i < tree.n; i++) {
    if (tree.func[i] !== func)
      continue;
    let up = tree.parent[i];
    while (up > 0 && tree.func[up] !== func)
      up = tree.parent[up];
    if (up > 0)
      continue;
    const at = tree.parent[i];
    const key = tree.func[at] * 0x80000000 + tree.line[at];
    const row = found.get(key) ||
      {func: tree.func[at], line: tree.line[at], now: 0, base: 0};
    row.now += tree.below[0][i];
    row.base += tree.below[1][i];
    found.set(key, row);
  }
  return [...found.values()].sort((a, b) =>
    Math.max(b.now, b.base) - Math.max(a.now, a.base));
}
