// TextEncoder and TextDecoder for UTF-8 (WHATWG Encoding), btoa and atob (WHATWG Infra).
(function (define, global) {
  "use strict";
  const encode = (text) => {
    const out = [];
    for (const char of String(text)) {
      let c = char.codePointAt(0);
      if (c >= 0xd800 && c <= 0xdfff) c = 0xfffd;
      if (c < 0x80) out.push(c);
      else if (c < 0x800) out.push(0xc0 | (c >> 6), 0x80 | (c & 63));
      else if (c < 0x10000) out.push(0xe0 | (c >> 12), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
      else out.push(0xf0 | (c >> 18), 0x80 | ((c >> 12) & 63), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
    }
    return new Uint8Array(out);
  };
  const decode = (bytes, fatal) => {
    const out = [];
    let need = 0, c = 0, low = 0x80, high = 0xbf;
    const bad = () => {
      if (fatal) throw new TypeError("The bytes are not valid UTF-8");
      out.push("\ufffd");
      need = 0;
      low = 0x80;
      high = 0xbf;
    };
    for (let i = 0; i < bytes.length; i++) {
      const b = bytes[i];
      if (need > 0) {
        if (b < low || b > high) {
          bad();
          i--;
          continue;
        }
        low = 0x80;
        high = 0xbf;
        c = (c << 6) | (b & 63);
        if (--need === 0) out.push(String.fromCodePoint(c));
      } else if (b < 0x80) out.push(String.fromCharCode(b));
      else if (b >= 0xc2 && b <= 0xdf) (need = 1), (c = b & 31);
      else if (b >= 0xe0 && b <= 0xef) {
        need = 2;
        c = b & 15;
        if (b === 0xe0) low = 0xa0;
        if (b === 0xed) high = 0x9f;
      } else if (b >= 0xf0 && b <= 0xf4) {
        need = 3;
        c = b & 7;
        if (b === 0xf0) low = 0x90;
        if (b === 0xf4) high = 0x8f;
      } else bad();
    }
    if (need > 0) bad();
    return out.join("");
  };
  // How many bytes at the end are the beginning of a character.
  const begun = (bytes) => {
    for (let n = 1; n <= 3 && n <= bytes.length; n++) {
      const b = bytes[bytes.length - n];
      if (b < 0x80) return 0;
      if (b >= 0xc0) return n < (b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2) ? n : 0;
    }
    return 0;
  };
  define(global, "TextEncoder", class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return encode(text); }
  });
  define(global, "TextDecoder", class TextDecoder {
    #fatal;
    #ignoreBOM;
    #rest = new Uint8Array(0);
    #inside = false; // of a stream, behind its first bytes
    constructor(label = "utf-8", options = {}) {
      if (!["utf-8", "utf8", "unicode-1-1-utf-8"].includes(String(label).trim().toLowerCase())) throw new RangeError("Only utf-8 can be decoded here");
      this.#fatal = Boolean(options.fatal);
      this.#ignoreBOM = Boolean(options.ignoreBOM);
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(input, options = {}) {
      const given = input === undefined ? new Uint8Array(0) :
        input instanceof ArrayBuffer ? new Uint8Array(input) : new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
      const stream = Boolean(options?.stream), first = !this.#inside;
      let bytes = given;
      if (this.#rest.length) {
        bytes = new Uint8Array(this.#rest.length + given.length);
        bytes.set(this.#rest);
        bytes.set(given, this.#rest.length);
      }
      const end = bytes.length - (stream ? begun(bytes) : 0);
      this.#rest = new Uint8Array(0);
      this.#inside = false;
      const text = decode(bytes.subarray(0, end), this.#fatal);
      this.#rest = bytes.slice(end);
      this.#inside = stream && (!first || end > 0);
      return first && !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    }
  });
  const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const invalid = (message) => {
    const e = new Error(message);
    e.name = "InvalidCharacterError";
    return e;
  };
  define(global, "btoa", function btoa(data) {
    const text = String(data), out = [];
    for (let i = 0; i < text.length; i += 3) {
      const a = text.charCodeAt(i), b = text.charCodeAt(i + 1), c = text.charCodeAt(i + 2);
      if (a > 255 || b > 255 || c > 255) throw invalid("btoa takes characters up to U+00FF: encode others with TextEncoder first");
      out.push(signs[a >> 2] + signs[((a & 3) << 4) | (b >> 4)] +
        (i + 1 < text.length ? signs[((b & 15) << 2) | (c >> 6)] : "=") + (i + 2 < text.length ? signs[c & 63] : "="));
    }
    return out.join("");
  });
  define(global, "atob", function atob(data) {
    let text = String(data).replace(/[\t\n\f\r ]/g, "");
    if (text.length % 4 === 0) text = text.replace(/==?$/, "");
    if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw invalid("atob takes base64");
    const out = [];
    let bits = 0, value = 0;
    for (let i = 0; i < text.length; i++) {
      value = ((value << 6) | signs.indexOf(text[i])) & 0xffff;
      bits += 6;
      if (bits >= 8) {
        bits -= 8;
        out.push(String.fromCharCode((value >> bits) & 255));
      }
    }
    return out.join("");
  });
})
