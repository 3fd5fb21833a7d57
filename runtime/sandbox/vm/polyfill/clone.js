// structuredClone, for what JSON and collections are made of.
(function (define, global) {
  "use strict";
  const kinds = new Map([Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((kind) => [kind.name, kind]));
  define(global, "structuredClone", function structuredClone(value) {
    const seen = new Map();
    const copy = (v, depth) => {
      if (typeof v === "function" || typeof v === "symbol") throw refuse(typeof v);
      if (typeof v !== "object" || v === null) return v;
      if (seen.has(v)) return seen.get(v);
      if (depth > 500) throw new RangeError("The value nests too deep to be cloned");
      const note = (out) => (seen.set(v, out), out);
      const inner = (x) => copy(x, depth + 1);
      if (Array.isArray(v)) {
        const out = note(new Array(v.length));
        for (const k of Object.keys(v)) out[k] = inner(v[k]);
        return out;
      }
      if (v instanceof Date) return note(new Date(v.getTime()));
      if (v instanceof RegExp) return note(new RegExp(v.source, v.flags));
      if (v instanceof Map) {
        const out = note(new Map());
        for (const [k, x] of v) out.set(inner(k), inner(x));
        return out;
      }
      if (v instanceof Set) {
        const out = note(new Set());
        for (const x of v) out.add(inner(x));
        return out;
      }
      if (v instanceof ArrayBuffer) return note(v.slice(0));
      if (ArrayBuffer.isView(v)) return note(v instanceof DataView ? new DataView(inner(v.buffer), v.byteOffset, v.byteLength) : v.slice());
      if (v instanceof Promise || v instanceof WeakMap || v instanceof WeakSet) throw refuse("object of this kind");
      if (v instanceof Error) {
        const out = note(new (kinds.get(v.name) ?? Error)(v.message));
        if (!kinds.has(v.name)) define(out, "name", v.name);
        if (typeof v.stack === "string") define(out, "stack", v.stack);
        if (Object.hasOwn(v, "cause")) define(out, "cause", inner(v.cause));
        return out;
      }
      if (v instanceof Number || v instanceof String || v instanceof Boolean) return note(Object(v.valueOf()));
      const out = note({});
      for (const k of Object.keys(v)) out[k] = inner(v[k]);
      return out;
    };
    return copy(value, 0);
  });
  function refuse(what) {
    const e = new Error("A " + what + " cannot be cloned");
    e.name = "DataCloneError";
    return e;
  }
})
