// Regular expressions that the engine cannot run right are refused, and texts that
// would not fit in memory are not begun.
(function (define, global, help) {
  "use strict";
  const Native = RegExp;
  function RegExp_(pattern, flags) {
    const source = pattern instanceof Native ? pattern.source : pattern === undefined ? "" : String(pattern);
    const marks = flags === undefined ? (pattern instanceof Native ? pattern.flags : "") : String(flags);
    const bad = help.badRegex(source, marks);
    if (bad) throw new SyntaxError(bad);
    if (!new.target && pattern instanceof Native && flags === undefined) return pattern;
    try {
      return Reflect.construct(Native, [source, marks], !new.target || new.target === RegExp_ ? Native : new.target);
    } catch (e) {
      throw new SyntaxError("Invalid regular expression: /" + source + "/" + marks);
    }
  }
  Object.defineProperty(RegExp_, "name", { value: "RegExp" });
  Object.defineProperty(RegExp_, "prototype", { value: Native.prototype, writable: false });
  Object.defineProperty(RegExp_, Symbol.species, { get() { return this; } });
  define(Native.prototype, "constructor", RegExp_);
  define(global, "RegExp", RegExp_);
  const bound = (name, size) => {
    const native = String.prototype[name], apply = Reflect.apply;
    define(String.prototype, name, { [name](...args) {
      if (typeof this === "string") help.room(size(this, args));
      return apply(native, this, args);
    } }[name]);
  };
  bound("repeat", (text, args) => text.length * (Number(args[0]) || 0));
  bound("padStart", (_, args) => Number(args[0]) || 0);
  bound("padEnd", (_, args) => Number(args[0]) || 0);
})
