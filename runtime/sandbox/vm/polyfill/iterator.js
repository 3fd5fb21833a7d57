// Iterator and the methods of iterators (ECMA-262, Iterator Helper Objects).
(function (define, world, each) {
  "use strict";
  const proto = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
  const { apply } = Reflect;
  const isObject = (v) => Object(v) === v;
  const close = (it) => {
    const f = it.return;
    if (f !== undefined && f !== null) apply(f, it, []);
    return {};
  };
  // An iterator as something to iterate over, its next read once.
  const opened = (it) => {
    const next = it.next;
    if (typeof next !== "function") throw new TypeError("The iterator has no function next");
    return { [Symbol.iterator]: () => ({ next: () => apply(next, it, []), return: () => close(it) }) };
  };
  const listed = (v) => typeof v[Symbol.iterator] === "function" ? each(v) : opened(v);
  const count = (n) => {
    const number = Number(n);
    if (Number.isNaN(number) || Math.trunc(number) < 0) throw new RangeError(String(n) + " must be positive");
    return Math.trunc(number);
  };
  const callback = (f) => {
    if (typeof f !== "function") throw new TypeError("This method of iterators takes a function");
    return f;
  };
  const lazy = {
    *map(items, f) { let i = 0; for (const x of items) yield f(x, i++); },
    *filter(items, f) { let i = 0; for (const x of items) if (f(x, i++)) yield x; },
    *take(items, n, it) {
      if (n === 0) return void close(it);
      for (const x of items) {
        yield x;
        if (--n === 0) return;
      }
    },
    *drop(items, n) { for (const x of items) if (n > 0) n--; else yield x; },
    *flatMap(items, f) {
      let i = 0;
      for (const x of items) {
        const inner = f(x, i++);
        if (!isObject(inner)) throw new TypeError("The function given to flatMap returns something to iterate over");
        for (const y of listed(inner)) yield y;
      }
    },
  };
  const eager = {
    reduce(items, f, ...first) {
      let i = 0, out = first[0], empty = first.length === 0;
      for (const x of items) {
        out = empty ? x : f(out, x, i);
        empty = false;
        i++;
      }
      if (empty) throw new TypeError("Reduce of an empty iterator with no initial value");
      return out;
    },
    forEach(items, f) { let i = 0; for (const x of items) f(x, i++); },
    some(items, f) { let i = 0; for (const x of items) if (f(x, i++)) return true; return false; },
    every(items, f) { let i = 0; for (const x of items) if (!f(x, i++)) return false; return true; },
    find(items, f) { let i = 0; for (const x of items) if (f(x, i++)) return x; },
  };
  const add = (name, run, check) => define(proto, name, { [name](given, ...more) {
    if (!isObject(this)) throw new TypeError("This is no iterator");
    const arg = check(given);
    return run(opened(this), arg, ...(name === "reduce" ? more : [this]));
  } }[name]);
  for (const name of Object.keys(lazy)) add(name, lazy[name], name === "take" || name === "drop" ? count : callback);
  for (const name of Object.keys(eager)) add(name, eager[name], callback);
  define(proto, "toArray", function toArray() {
    if (!isObject(this)) throw new TypeError("This is no iterator");
    return [...opened(this)];
  });
  function Iterator() {
    if (new.target === undefined || new.target === Iterator) throw new TypeError("Iterator is a class to extend");
  }
  Iterator.prototype = proto;
  define(proto, "constructor", Iterator);
  define(Iterator, "from", function from(v) {
    if (!isObject(v) && typeof v !== "string") throw new TypeError("Iterator.from takes something to iterate over");
    const it = typeof v[Symbol.iterator] === "function" ? v[Symbol.iterator]() : v;
    if (it instanceof Iterator) return it;
    const inner = opened(it)[Symbol.iterator]();
    return Object.assign(Object.create(proto), inner);
  });
  define(world, "Iterator", Iterator);
})
