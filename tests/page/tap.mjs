// tap.mjs: the lines of a test, as TAP.

let n = 0;
let nFailed = 0;

export function ok(isOk, name, why = "") {
  n++;
  nFailed += isOk ? 0 : 1;
  console.log(`${isOk ? "" : "not "}ok ${n} - ${name}`);
  if (!isOk && why !== "")
    for (const line of String(why).split("\n"))
      console.log(`# ${line}`);
}

export function same(got, wanted, name) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  ok(a === b, name, `got    ${a}\nwanted ${b}`);
}

export function finish() {
  console.log(`1..${n}`);
  process.exitCode = nFailed > 0 ? 1 : 0;
}
