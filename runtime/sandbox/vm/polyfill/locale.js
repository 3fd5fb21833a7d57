// toLocaleString and its kin for en-US, which is what scripts ask for. Another locale,
// another zone of time than UTC, an option that is not known here, or parts of a date of
// which nobody writes a text (a weekday and a year) are refused: an answer that is nearly
// right is worse.
(function (define) {
  "use strict";
  const refuse = (what) => { throw new RangeError(what + " is not available here: only en-US and UTC are; write the text out"); };
  const check = (locales, options, known) => {
    for (const l of locales === undefined ? [] : [].concat(locales)) {
      if (!/^en(-US)?$/i.test(String(l))) refuse("The locale " + String(l));
    }
    for (const k of Object.keys(options)) {
      if (options[k] !== undefined && !known.includes(k)) refuse("The option " + k);
    }
  };
  const signs = { USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", KRW: "₩", CNY: "CN¥", CAD: "CA$", AUD: "A$", MXN: "MX$", NZD: "NZ$", BRL: "R$", ILS: "₪", VND: "₫" };
  const group = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");
  const format = (n, options) => {
    check(undefined, options, ["style", "currency", "minimumFractionDigits", "maximumFractionDigits", "minimumIntegerDigits", "useGrouping"]);
    const style = options.style ?? "decimal";
    if (!["decimal", "percent", "currency"].includes(style)) refuse("The style " + style);
    const money = style === "currency" ? String(options.currency ?? "").toUpperCase() : "";
    if (style === "currency" && !/^[A-Z]{3}$/.test(money)) throw new TypeError("A style of currency needs a currency");
    const usual = style === "percent" ? [0, 0] : style === "currency" ? (["JPY", "KRW", "VND"].includes(money) ? [0, 0] : [2, 2]) : [0, 3];
    const given = (name) => options[name] === undefined ? undefined : Math.floor(Number(options[name]));
    const lower = given("minimumFractionDigits"), upper = given("maximumFractionDigits");
    const least = lower ?? Math.min(usual[0], upper ?? usual[0]);
    const most = upper ?? Math.max(least, usual[1]);
    if (!(least >= 0 && least <= most && most <= 20)) throw new RangeError("The number of digits is out of range");
    const sign = n < 0 || Object.is(n, -0) ? "-" : "";
    let text;
    if (typeof n === "bigint") text = String((n < 0n ? -n : n) * (style === "percent" ? 100n : 1n)) + (least ? "." + "0".repeat(least) : "");
    else if (Number.isNaN(n)) return "NaN";
    else if (!Number.isFinite(n)) text = "∞";
    else text = fixed(Math.abs(style === "percent" ? n * 100 : n), least, most);
    let [whole, part] = text.split(".");
    const digits = given("minimumIntegerDigits") ?? 1;
    if (!(digits >= 1 && digits <= 21)) throw new RangeError("The number of digits is out of range");
    whole = whole.padStart(digits, Number.isNaN(n) || whole === "∞" ? "" : "0");
    if (options.useGrouping !== false) whole = group(whole);
    const body = part ? whole + "." + part : whole;
    if (style === "percent") return sign + body + "%";
    if (style === "currency") return sign + (signs[money] ?? money + "\u00a0") + body;
    return sign + body;
  };
  const fixed = (n, least, most) => {
    let text = n >= 1e21 ? String(BigInt(n)) : round(n, most);
    if (!text.includes(".")) return least ? text + "." + "0".repeat(least) : text;
    while (text.split(".")[1].length > least && text.endsWith("0")) text = text.slice(0, -1);
    return text.endsWith(".") ? text.slice(0, -1) : text;
  };
  // Half rounds away from zero by the digits that a number shows, as Intl does: 1.005 is 1.01.
  const round = (n, digits) => {
    const [, whole, part = "", e = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(n));
    const shift = Number(e);
    let all = whole + part, point = whole.length + shift;
    if (point <= 0) { all = "0".repeat(1 - point) + all; point = 1; }
    if (point > all.length) all = all.padEnd(point, "0");
    const keep = all.slice(0, point + digits).padEnd(point + digits, "0");
    let value = BigInt(keep || "0");
    if ((all[point + digits] ?? "0") >= "5") value++;
    const out = String(value).padStart(digits + 1, "0");
    return digits ? out.slice(0, out.length - digits) + "." + out.slice(out.length - digits) : out;
  };
  define(Number.prototype, "toLocaleString", function toLocaleString(locales, options = {}) {
    check(locales, {}, []);
    return format(Number(this), options);
  });
  define(BigInt.prototype, "toLocaleString", function toLocaleString(locales, options = {}) {
    check(locales, {}, []);
    return format(BigInt(this), options);
  });
  const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
  const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
  const two = (n) => String(n).padStart(2, "0");
  const day = (d, o) => {
    const name = (list, i, style) => style === "long" ? list[i] : style === "short" ? list[i].slice(0, 3) : refuse("The style " + style);
    const weekday = o.weekday && name(days, d.getUTCDay(), o.weekday);
    const year = o.year && (o.year === "2-digit" ? two(d.getUTCFullYear() % 100) : String(d.getUTCFullYear()));
    const date = o.day && (o.day === "2-digit" ? two(d.getUTCDate()) : String(d.getUTCDate()));
    if (!o.month || o.month === "numeric" || o.month === "2-digit") {
      const month = o.month && (o.month === "2-digit" ? two(d.getUTCMonth() + 1) : String(d.getUTCMonth() + 1));
      return [weekday, [month, date, year].filter(Boolean).join("/")].filter(Boolean).join(", ");
    }
    const month = name(months, d.getUTCMonth(), o.month);
    const front = [month, date].filter(Boolean).join(" ");
    return [weekday, year && !date ? front + " " + year : front, date && year].filter(Boolean).join(", ");
  };
  const time = (d, o) => {
    const twelve = o.hour12 ?? true;
    let hour = d.getUTCHours();
    if (twelve) hour = hour % 12 || 12;
    else if (hour === 0) hour = 24; // as Node.js has it
    if (!o.hour && (!o.minute || !o.second)) return o.minute ? String(d.getUTCMinutes()) : o.second ? String(d.getUTCSeconds()) : "";
    const parts = [o.hour && (o.hour === "2-digit" || !twelve ? two(hour) : String(hour)), o.minute && two(d.getUTCMinutes()), o.second && two(d.getUTCSeconds())];
    return parts.filter(Boolean).join(":") + (twelve && o.hour ? (d.getUTCHours() < 12 ? " AM" : " PM") : "");
  };
  const dated = { year: "numeric", month: "numeric", day: "numeric" };
  const timed = { hour: "numeric", minute: "2-digit", second: "2-digit" };
  const known = ["weekday", "year", "month", "day", "hour", "minute", "second", "hour12", "timeZone", "dateStyle", "timeStyle"];
  const dateStyles = {
    full: { weekday: "long", year: "numeric", month: "long", day: "numeric" }, long: { year: "numeric", month: "long", day: "numeric" },
    medium: { year: "numeric", month: "short", day: "numeric" }, short: { year: "2-digit", month: "numeric", day: "numeric" },
  };
  const timeStyles = { medium: timed, short: { hour: "numeric", minute: "2-digit" } };
  const styled = (o) => {
    const pick = (list, name) => name === undefined ? {} : Object.hasOwn(list, name) ? list[name] : refuse("The style " + String(name));
    return { hour12: o.hour12, ...pick(dateStyles, o.dateStyle), ...pick(timeStyles, o.timeStyle) };
  };
  const dates = (name, wantsDay, wantsTime) => define(Date.prototype, name, { [name](locales, options = {}) {
    check(locales, options, known);
    if (options.timeZone !== undefined && !/^(Etc\/)?(UTC|GMT)$/i.test(String(options.timeZone))) refuse("The zone " + String(options.timeZone));
    if (Number.isNaN(this.getTime())) return "Invalid Date";
    const hasStyle = options.dateStyle !== undefined || options.timeStyle !== undefined;
    if (hasStyle) {
      if (known.slice(0, 7).some((k) => options[k] !== undefined)) throw new TypeError("A style and parts of a date do not go together");
      if (options.dateStyle !== undefined && !wantsDay || options.timeStyle !== undefined && !wantsTime) throw new TypeError("This style is not for this method");
    }
    const any = (keys) => keys.some((k) => options[k] !== undefined);
    const asked = any(["weekday", "year", "month", "day"]), askedTime = any(["hour", "minute", "second"]);
    let o = hasStyle ? styled(options) : { ...options };
    if (!hasStyle && (!(asked || askedTime) || (wantsDay && !wantsTime && !asked) || (wantsTime && !wantsDay && !askedTime))) {
      o = { ...o, ...(wantsDay ? dated : {}), ...(wantsTime ? timed : {}) };
    }
    if (o.weekday && (o.year || o.month || o.day) && !(o.month && o.day) || o.year && o.day && !o.month || o.hour && o.second && !o.minute) {
      refuse("A text of these parts of a date");
    }
    const onlyName = o.weekday && !o.day && o.hour && (o.hour12 !== false || o.minute);
    return [day(this, o), time(this, o)].filter(Boolean).join(o.month === "long" ? " at " : onlyName ? " " : ", ");
  } }[name]);
  dates("toLocaleString", true, true);
  dates("toLocaleDateString", true, false);
  dates("toLocaleTimeString", false, true);
  const compare = String.prototype.localeCompare;
  define(String.prototype, "localeCompare", function localeCompare(that, locales, options = {}) {
    check(locales, options, ["numeric", "sensitivity"]);
    let a = String(this), b = String(that);
    const bare = (t) => t.normalize("NFD").replace(/[\u0300-\u036f]/g, "");
    switch (options.sensitivity) {
      case undefined: case "variant": break;
      case "base": a = bare(a).toLowerCase(); b = bare(b).toLowerCase(); break;
      case "accent": a = a.toLowerCase(); b = b.toLowerCase(); break;
      default: refuse("The sensitivity " + options.sensitivity);
    }
    if (!options.numeric) return compare.call(a, b);
    // One comparison of the whole texts, since a part is not ordered by itself as it is within
    // one: how many digits a number has stands before it.
    const counted = (t) => t.replace(/\d+/g, (run) => {
      const digits = run.replace(/^0+(?=\d)/, "");
      return String(digits.length).padStart(9, "0") + digits;
    });
    return compare.call(counted(a), counted(b));
  });
})
