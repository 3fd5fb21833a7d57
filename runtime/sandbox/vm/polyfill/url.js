// URL and URLSearchParams (WHATWG URL), for addresses of the web. A host that is not
// ASCII is refused, since it would have to be spelled in Punycode.
(function (define, global, each) {
  "use strict";
  const ports = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
  const escape = (text, keep) => String(text).replace(/[\u0000- "#<>?`{}^\u007f-\u{10ffff}|'\\]/gu, (c) =>
    keep.includes(c) ? c : /[\ud800-\udfff]/.test(c) && c.length === 1 ? "%EF%BF%BD" : c === "'" ? "%27" : encodeURIComponent(c));
  const form = (text) => encodeURIComponent(String(text).toWellFormed?.() ?? text).replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase()).replace(/%20/g, "+");
  const plain = (text) => {
    text = text.replace(/\+/g, " ");
    try {
      return decodeURIComponent(text);
    } catch {
      return text.replace(/(%[0-9a-f]{2})+/gi, (run) => {
        try { return decodeURIComponent(run); } catch { return "\ufffd"; }
      });
    }
  };
  const hook = Symbol("url");
  class URLSearchParams {
    #list = [];
    constructor(init = "") {
      if (init !== null && typeof init === "object") {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of each(init)) {
            const [k, v, ...more] = each(pair);
            if (v === undefined || more.length) throw new TypeError("A pair has a name and a value");
            this.#list.push([String(k), String(v)]);
          }
        } else for (const k of Object.keys(init)) this.#list.push([k, String(init[k])]);
      } else this.#read(String(init));
    }
    #read(text) {
      if (text.startsWith("?")) text = text.slice(1);
      this.#list = text.split("&").filter(Boolean).map((part) => {
        const at = part.indexOf("=");
        return at < 0 ? [plain(part), ""] : [plain(part.slice(0, at)), plain(part.slice(at + 1))];
      });
    }
    #changed() { this[hook]?.(this.toString()); }
    static read(params, text) { params.#read(text); }
    get size() { return this.#list.length; }
    append(k, v) { this.#list.push([String(k), String(v)]); this.#changed(); }
    delete(k, v) { this.#list = this.#list.filter((p) => p[0] !== String(k) || (v !== undefined && p[1] !== String(v))); this.#changed(); }
    get(k) { return this.#list.find((p) => p[0] === String(k))?.[1] ?? null; }
    getAll(k) { return this.#list.filter((p) => p[0] === String(k)).map((p) => p[1]); }
    has(k, v) { return this.#list.some((p) => p[0] === String(k) && (v === undefined || p[1] === String(v))); }
    set(k, v) {
      const at = this.#list.findIndex((p) => p[0] === String(k));
      if (at < 0) this.#list.push([String(k), String(v)]);
      else {
        this.#list[at] = [String(k), String(v)];
        this.#list = this.#list.filter((p, i) => i <= at || p[0] !== String(k));
      }
      this.#changed();
    }
    sort() { this.#list.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)); this.#changed(); }
    forEach(f, self) { for (const [k, v] of this.#list) f.call(self, v, k, this); }
    *entries() { for (const [k, v] of this.#list) yield [k, v]; }
    *keys() { for (const [k] of this.#list) yield k; }
    *values() { for (const [, v] of this.#list) yield v; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#list.map(([k, v]) => form(k) + "=" + form(v)).join("&"); }
  }
  const read = URLSearchParams.read;
  delete URLSearchParams.read;
  const dots = (path) => {
    const out = [];
    const parts = path.split("/");
    parts.forEach((part, i) => {
      const last = i === parts.length - 1;
      if (/^(\.|%2e)$/i.test(part)) { if (last) out.push(""); }
      else if (/^(\.|%2e){2}$/i.test(part)) { if (out.length > 1) out.pop(); if (last) out.push(""); }
      else out.push(part);
    });
    return out.join("/");
  };
  const bad = (text) => { throw new TypeError("Invalid URL: " + String(text).slice(0, 200)); };
  // An IPv4 address of one to four numbers, each in base ten, eight or sixteen.
  const address = (host, whole) => {
    const parts = host.replace(/\.$/, "").split(".");
    const numbers = parts.map((part) => {
      if (/^0x[0-9a-f]*$/.test(part)) return part === "0x" ? 0 : Number(part);
      if (/^0[0-7]+$/.test(part)) return parseInt(part, 8);
      return /^(0|[1-9]\d*)$/.test(part) ? Number(part) : bad(whole);
    });
    const last = numbers.pop();
    if (numbers.length > 3 || numbers.some((n) => n > 255) || last >= 256 ** (4 - numbers.length)) bad(whole);
    const all = numbers.reduce((sum, n, i) => sum + n * 256 ** (3 - i), last);
    return [24, 16, 8, 0].map((shift) => Math.floor(all / 2 ** shift) % 256).join(".");
  };
  const hostOf = (text, whole, special) => {
    let host = special ? text.toLowerCase() : text;
    if (special) { try { host = decodeURIComponent(host).toLowerCase(); } catch { bad(whole); } }
    if (/[^\u0000-\u007f]/.test(host)) throw new TypeError("A host that is not ASCII is not available here: write it in Punycode");
    if (/^\[[0-9a-f:.]+\]$/i.test(host)) return host.toLowerCase();
    if (special && /(^|\.)(\d+|0x[0-9a-f]*)\.?$/.test(host)) return address(host, whole);
    if ((special && host === "") || /[\u0000- #/:<>?@[\\\]^|%\u007f]/.test(host)) bad(whole);
    return host;
  };
  const parse = (input, base) => {
    const text = String(input).replace(/^[\u0000- ]+|[\u0000- ]+$/g, "").replace(/[\t\n\r]/g, "");
    const hash = text.indexOf("#");
    const u = { protocol: "", username: "", password: "", hostname: "", port: "", pathname: "", search: "", hash: "", opaque: false };
    let rest = hash < 0 ? text : text.slice(0, hash);
    u.hash = hash < 0 || hash === text.length - 1 ? "" : "#" + escape(text.slice(hash + 1), "#?{}^|'\\");
    const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(rest);
    let full = Boolean(scheme);
    if (scheme) {
      u.protocol = scheme[1].toLowerCase() + ":";
      rest = rest.slice(scheme[0].length);
      if (base && base.protocol === u.protocol && ports[u.protocol] && !/^[/\\]/.test(rest)) full = false;
    }
    if (!full) {
      if (!base) bad(input);
      if (base.opaque && (rest !== "" || hash < 0)) bad(input);
      u.protocol = base.protocol;
    }
    const special = u.protocol in ports || u.protocol === "file:";
    if (full && !special && !rest.startsWith("/")) {
      const at = rest.indexOf("?");
      u.opaque = true;
      u.pathname = escape(at < 0 ? rest : rest.slice(0, at), " \"#<>?`{}^|'\\");
      u.search = at < 0 || at === rest.length - 1 ? "" : "?" + escape(rest.slice(at + 1), "?`{}^|'\\");
      return u;
    }
    const mark = rest.indexOf("?");
    let path = mark < 0 ? rest : rest.slice(0, mark);
    const query = mark < 0 ? null : rest.slice(mark + 1);
    if (special) path = path.replace(/\\/g, "/");
    if (special && full && u.protocol !== "file:") path = "//" + path.replace(/^\/+/, "");
    if (path.startsWith("//")) {
      const end = path.indexOf("/", 2);
      authority(u, end < 0 ? path.slice(2) : path.slice(2, end), input, special);
      path = end < 0 ? "" : path.slice(end);
    } else if (!full) {
      for (const k of ["username", "password", "hostname", "port"]) u[k] = base[k];
      if (path === "") {
        path = base.pathname;
        if (query === null) u.search = base.search;
      } else if (!path.startsWith("/")) path = base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1) + path;
    }
    if (special && !path.startsWith("/")) path = "/" + path;
    u.pathname = escape(dots(path), "|'\\^");
    if (query !== null) u.search = query === "" ? "" : "?" + escape(query, special ? "?`{}^|\\" : "?`{}^|'\\");
    return u;
  };
  const authority = (u, text, whole, special) => {
    const at = text.lastIndexOf("@");
    if (at >= 0) {
      const [name, ...word] = text.slice(0, at).split(":");
      u.username = escape(name, "").replace(/[/:;=@[\]|\\^]/g, encodeURIComponent);
      u.password = escape(word.join(":"), "").replace(/[/:;=@[\]|\\^]/g, encodeURIComponent);
      text = text.slice(at + 1);
    }
    const port = /:(\d*)$/.exec(text);
    if (port) {
      text = text.slice(0, port.index);
      if (Number(port[1]) > 65535) bad(whole);
      if (port[1] !== "") u.port = String(Number(port[1])) === ports[u.protocol] ? "" : String(Number(port[1]));
    }
    u.hostname = u.protocol === "file:" && text === "" ? "" : hostOf(text, whole, special);
  };
  class URL {
    #u;
    #params;
    constructor(url, base) {
      this.#u = parse(url, base === undefined ? undefined : parse(base));
      this.#params = new URLSearchParams(this.#u.search);
      Object.defineProperty(this.#params, hook, { value: (text) => { this.#u.search = text ? "?" + text : ""; } });
    }
    static canParse(url, base) {
      try { new URL(url, base); return true; } catch { return false; }
    }
    static parse(url, base) {
      try { return new URL(url, base); } catch { return null; }
    }
    #take(u) { this.#u = u; read(this.#params, u.search); }
    get href() {
      const u = this.#u;
      const login = u.username || u.password ? u.username + (u.password ? ":" + u.password : "") + "@" : "";
      const slashes = u.opaque || (u.hostname === "" && u.protocol !== "file:") ? "" : "//";
      return u.protocol + slashes + login + this.host + u.pathname + u.search + u.hash;
    }
    set href(v) { this.#take(parse(v)); }
    get origin() { return this.#u.protocol in ports ? this.#u.protocol + "//" + this.host : "null"; }
    get protocol() { return this.#u.protocol; }
    set protocol(v) {
      const p = String(v).replace(/:.*$/, "").toLowerCase() + ":";
      if (p in ports !== this.#u.protocol in ports) return;
      this.#u.protocol = p;
      if (this.#u.port === ports[p]) this.#u.port = "";
    }
    get username() { return this.#u.username; }
    set username(v) { this.#u.username = encodeURIComponent(v); }
    get password() { return this.#u.password; }
    set password(v) { this.#u.password = encodeURIComponent(v); }
    get host() { return this.#u.hostname + (this.#u.port && ":" + this.#u.port); }
    set host(v) { const u = { ...this.#u }; authority(u, String(v).replace(/^.*@/, ""), v, u.protocol in ports); u.username = this.#u.username; u.password = this.#u.password; this.#u = u; }
    get hostname() { return this.#u.hostname; }
    set hostname(v) { this.#u.hostname = hostOf(String(v), v, this.#u.protocol in ports); }
    get port() { return this.#u.port; }
    set port(v) {
      const n = String(v);
      if (n !== "" && (!/^\d+$/.test(n) || Number(n) > 65535)) return;
      this.#u.port = n === ports[this.#u.protocol] ? "" : n === "" ? "" : String(Number(n));
    }
    get pathname() { return this.#u.pathname; }
    set pathname(v) { if (!this.#u.opaque) this.#u.pathname = escape(dots(String(v).startsWith("/") ? String(v) : "/" + v), "|'\\^"); }
    get search() { return this.#u.search; }
    set search(v) {
      const q = String(v).replace(/^\?/, "");
      this.#u.search = q === "" ? "" : "?" + escape(q, "?`{}^|\\");
      read(this.#params, q);
    }
    get searchParams() { return this.#params; }
    get hash() { return this.#u.hash; }
    set hash(v) { const h = String(v).replace(/^#/, ""); this.#u.hash = h === "" ? "" : "#" + escape(h, "#?{}^|'\\"); }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }
  define(global, "URLSearchParams", URLSearchParams);
  define(global, "URL", URL);
})
