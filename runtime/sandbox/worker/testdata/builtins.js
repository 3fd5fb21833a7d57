const bases = {
  Object, Array, String, Number, Boolean, Symbol, BigInt, Date, RegExp, Map, Set, WeakMap, WeakSet, Promise, Proxy, Reflect, JSON, Math, ArrayBuffer, DataView,
  Uint8Array, BigInt64Array, Error, AggregateError, URL, URLSearchParams, TextEncoder, TextDecoder, ToolError, console,
  texts: {parseInt, parseFloat, isNaN, isFinite, encodeURIComponent, decodeURIComponent, encodeURI, decodeURI, btoa, atob, structuredClone},
  timers: {setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask},
  TypedArray: Object.getPrototypeOf(Int8Array), functions: {prototype: Object.getPrototypeOf(() => 1)},
  arrayIterator: {prototype: Object.getPrototypeOf([][Symbol.iterator]())}, mapIterator: {prototype: Object.getPrototypeOf(new Map().keys())},
  setIterator: {prototype: Object.getPrototypeOf(new Set().keys())}, textIterator: {prototype: Object.getPrototypeOf(""[Symbol.iterator]())},
  matchIterator: {prototype: Object.getPrototypeOf("".matchAll(/a/g))}, generator: {prototype: Object.getPrototypeOf((function* () {}).prototype)},
};
const name = BASE;
if (name === "") return Object.keys(bases);

// What no built-in wants. One that is used up is made anew.
const hostile = [
  () => undefined, () => null, () => 0, () => -1, () => NaN, () => Infinity, () => -0.5, () => "", () => "(", () => "\ud800", () => "zz", () => Symbol("s"), () => 10n,
  () => ({}), () => [], () => [, 1], () => () => 1, () => /a/g, () => new Date(NaN), () => Object.create(null),
  () => ({valueOf() { throw new RangeError("mine") }, toString() { throw new RangeError("mine") }}), () => ({toString: null, valueOf: null}),
  () => ({toString() { return {} }, valueOf() { return {} }}), () => ({get length() { throw new RangeError("mine") }}), () => ({length: -1}), () => ({length: 3, 1: {}}),
  () => ({get then() { throw new RangeError("mine") }}), () => ({then: 1}), () => new Proxy({}, {get() { throw new RangeError("mine") }}),
  () => new Proxy(function () {}, {}), () => new Proxy([], {ownKeys() { return [1] }}), () => new Map([[1, 2]]), () => new Set([1]), () => Promise.resolve(),
  () => new Uint8Array(2), () => new ArrayBuffer(2), () => Object.freeze([1]), () => async () => { null.x }, () => function* () {}, () => class {},
  () => ({toJSON() { return 1n }}), () => ({[Symbol.toPrimitive]: 1}), () => ({[Symbol.toPrimitive]() { return {} }}), () => ({[Symbol.iterator]: 1}),
  () => ({[Symbol.iterator]() { return {next() { null.x }} }}), () => ({raw: null}), () => tools, () => tools.demo.echo,
];
const said = new Set();
const places = new Set();
function hear(e) {
  if (!Error.isError(e)) return;
  let text;
  try { text = e.name + ": " + e.message } catch { return }
  said.add(text);
  const stack = String(e.stack);
  if (stack.includes(text)) {
    for (const row of stack.slice(stack.indexOf(text) + text.length).split("\n").slice(1)) places.add(row.replace(/\(\d+:\d+\)/, m => +m.slice(1).split(":")[0] <= LINES ? "(here)" : m));
  }
}
function attempt(f) {
  try {
    const made = f();
    if (made instanceof Promise) made.catch(hear);
    else if (typeof made === "string" || typeof made === "function") said.add(String(made).slice(0, 200));
  } catch (e) { hear(e) }
}
function torment(f, fresh) {
  said.add(f.name + " " + String(f).slice(0, 200));
  for (const v of hostile) {
    attempt(() => Reflect.apply(f, v(), []));
    attempt(() => Reflect.apply(f, v(), [v(), v()]));
    attempt(() => Reflect.apply(f, fresh(), [v()]));
    attempt(() => Reflect.apply(f, fresh(), [v(), v(), v()]));
    attempt(() => Reflect.apply(f, fresh(), [1, v()]));
    attempt(() => Reflect.apply(f, fresh(), [() => { throw v() }, v()]));
    attempt(() => Reflect.construct(f, [v()]));
    attempt(() => Reflect.construct(f, [v(), v()]));
  }
}
const makers = {
  DataView: () => new DataView(new ArrayBuffer(8)), Symbol: () => Symbol("x"), BigInt: () => 10n, Promise: () => Promise.resolve(1), RegExp: () => /b/g, URL: () => new URL("http://a/"),
  functions: () => () => 1, arrayIterator: () => [1][Symbol.iterator](), mapIterator: () => new Map([[1, 2]]).keys(), setIterator: () => new Set([1]).keys(), textIterator: () => "a"[Symbol.iterator](),
  matchIterator: () => "a".matchAll(/a/g), generator: () => (function* () { yield 1 })(), TypedArray: () => new Int8Array(2),
};
const base = bases[name];
const huge = new Set(["repeat", "padStart", "padEnd"]); // what they make is a limit's matter
function all(on, fresh) {
  for (const key of Reflect.ownKeys(on)) {
    if (key === "constructor" || huge.has(key)) continue;
    const d = Reflect.getOwnPropertyDescriptor(on, key);
    for (const f of [d.value, d.get, d.set]) if (typeof f === "function") torment(f, fresh);
  }
}
if (typeof base === "function" && name !== "Proxy") torment(base, () => undefined);
all(base, () => base);
const proto = name === "Proxy" ? undefined : base["prototype"];
if (proto) all(proto, makers[name] ?? (() => new base(1)));
await 1; await 1; await 1; await 1;
return {said: [...said], places: [...places]};
