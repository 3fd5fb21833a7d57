// Object.groupBy, Map.groupBy, Promise.withResolvers, Promise.try, Array.fromAsync, and
// Symbol.asyncIterator, dispose and asyncDispose, as ECMA-262 has them.
(function (define, world, each) {
  "use strict";
  const group = (items, key, add) => {
    if (typeof key !== "function") throw new TypeError("groupBy takes a function");
    let i = 0;
    for (const item of each(items)) add(key(item, i++), item);
  };
  define(Object, "groupBy", function groupBy(items, key) {
    const out = Object.create(null);
    group(items, key, (k, item) => {
      const name = typeof k === "symbol" ? k : String(k);
      (out[name] ??= []).push(item);
    });
    return out;
  });
  define(Map, "groupBy", function groupBy(items, key) {
    const out = new Map();
    group(items, key, (k, item) => {
      const list = out.get(k);
      if (list) list.push(item);
      else out.set(k, [item]);
    });
    return out;
  });
  define(Promise, "withResolvers", function withResolvers() {
    const out = {};
    out.promise = new this((resolve, reject) => {
      out.resolve = resolve;
      out.reject = reject;
    });
    return out;
  });
  define(Promise, "try", function (f, ...args) {
    return new this((resolve) => resolve(f(...args)));
  });
  const asyncIterator = Symbol.for("Symbol.asyncIterator");
  define(Symbol, "asyncIterator", asyncIterator);
  define(Symbol, "dispose", Symbol.for("Symbol.dispose"));
  define(Symbol, "asyncDispose", Symbol.for("Symbol.asyncDispose"));
  define(Array, "fromAsync", async function fromAsync(items, map) {
    const out = [];
    const add = async (v) => out.push(map ? await map(v, out.length) : v);
    if (items[asyncIterator]) {
      const it = items[asyncIterator]();
      for (let next = await it.next(); !next.done; next = await it.next()) await add(next.value);
    } else if (items[Symbol.iterator]) {
      for (const v of each(items)) await add(await v);
    } else {
      for (let i = 0; i < items.length; i++) await add(await items[i]);
    }
    return out;
  });
})
