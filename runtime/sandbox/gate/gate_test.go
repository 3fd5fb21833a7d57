package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// refused are sources that may not run: source → "line:column message", all of them.
var refused = []struct{ source, want string }{
	{`import fs from 'fs';`, "1:1 Import declarations are not allowed in sandboxed code"},
	{"const n: number = 1;\nimport type { X } from 'x';\nreturn n", "2:1 Import declarations are not allowed in sandboxed code"},
	{"import a = require('b'); return a", "1:1 Import declarations are not allowed in sandboxed code"},
	{"const a = 1;\nexport { a }", "2:1 Export declarations are not allowed in sandboxed code"},
	{"export default async () => 1", "1:1 Export declarations are not allowed in sandboxed code"},
	{"export interface A {}\nexport const a: A = {}", "2:1 Export declarations are not allowed in sandboxed code"},
	{"export type { A } from 'a'; return 1", "1:1 Export declarations are not allowed in sandboxed code"},
	{"export type A = import('a').A; return 1", "1:17 Dynamic import() is not allowed in sandboxed code"},
	{"export type A = string; /* é */ return eval('a')", "1:40 eval() is not allowed in sandboxed code"},
	{"namespace N { export const v = 3 } return N.v", "1:1 A namespace is not allowed in sandboxed code: write an object"},
	{"namespace N.M { import a = require('a'); export const v = a }", "1:1 A namespace is not allowed in sandboxed code: write an object; 1:17 Import declarations are not allowed in sandboxed code"},
	{"const {#a: b} = {}", "1:8 A private name is not allowed here: read it as this.#name"},
	{"return {#a: 1}", "1:9 A private name is not allowed here: read it as this.#name"},
	{"let await = 1", `1:5 Cannot use "await" as an identifier here`},
	{"return import('fs')", "1:8 Dynamic import() is not allowed in sandboxed code"},
	{"return import /* x */ ('fs')", "1:8 Dynamic import() is not allowed in sandboxed code"},
	{"const x: any = 1; return import.meta.url", "1:26 import.meta is not allowed in sandboxed code"},
	{"require('fs'); eval('1')", "1:1 require() is not allowed in sandboxed code; 1:16 eval() is not allowed in sandboxed code"},
	{"const x = new Set<string>([]);\nimport { y } from 'y'; return x", "2:1 Import declarations are not allowed in sandboxed code"},
	{"const x = new Set<string>([]); /* é */ eval<string>(x)", "1:40 eval() is not allowed in sandboxed code"},
	{"return new Set<string>(/\\p{L}/u)", `1:24 The class \p{…} of a regular expression is not available here: list the characters, as in [a-zà-ÿ]`},
	{"const 한글 = '한글'; eval(한글)", "1:18 eval() is not allowed in sandboxed code"},
	{"const x: string = 'é😀'; eval(x)", "1:25 eval() is not allowed in sandboxed code"},
	{"```js\nconst a = 1;\n  eval('a')\n```", "3:3 eval() is not allowed in sandboxed code"},
	{"\r\nprocess.exit()", "2:1 process is not allowed in sandboxed code"},
	{"return new Function('return 1')", "1:12 The Function constructor is not allowed in sandboxed code"},
	{"return [typeof module, globalThis]", "1:16 module is not allowed in sandboxed code; 1:24 globalThis is not allowed in sandboxed code"},
	{"{ let process = 1 } return process", "1:28 process is not allowed in sandboxed code"},
	{"const f = (a = process) => { var process = 1; return a }; return f()", "1:16 process is not allowed in sandboxed code"},
	{"return ({eval})", "1:10 eval() is not allowed in sandboxed code"},
	{"({require} = {}); return 1", "1:3 require() is not allowed in sandboxed code"},
	{"for (process of [1]) ;", "1:6 process is not allowed in sandboxed code"},
	{"class A extends Function {}", "1:17 The Function constructor is not allowed in sandboxed code"},
	{"class A { static { eval('1') } }", "1:20 eval() is not allowed in sandboxed code"},
	{"class A { [eval('x')] = 1 }", "1:12 eval() is not allowed in sandboxed code"},
	{"return x?.y[eval]", "1:13 eval() is not allowed in sandboxed code"},
	{"return [1 < eval(2) < 3, 1 < (2 < process < 4)]", "1:13 eval() is not allowed in sandboxed code; 1:35 process is not allowed in sandboxed code"},
	{"return 1 < 2 < ({}).constructor.constructor('a')", "1:17 A call of a constructor property is not allowed in sandboxed code; 1:33 A chain of constructors is not allowed in sandboxed code"},
	{"return `${`${eval(1)}`}`", "1:14 eval() is not allowed in sandboxed code"},
	{"return ({}).constructor.constructor('return 1')()", "1:9 A call of a constructor property is not allowed in sandboxed code; 1:25 A chain of constructors is not allowed in sandboxed code"},
	{"return (()=>1)['con' + 'structor']('x')", "1:9 A call of a constructor property is not allowed in sandboxed code"},
	{"return (()=>1)[`constructor`]`x`", "1:9 A call of a constructor property is not allowed in sandboxed code"},
	{"return ({}).__proto__", "1:13 __proto__ is not allowed in sandboxed code"},
	{"return {__proto__: null}", "1:9 __proto__ is not allowed in sandboxed code"},
	{"const {__proto__: p} = {}; return p", "1:8 __proto__ is not allowed in sandboxed code"},
	{"({}).__defineGetter__('a', () => 1)", "1:6 __defineGetter__ is not allowed in sandboxed code"},
	{"function f() { return arguments.callee }", "1:33 callee of a function is not allowed in sandboxed code"},
	{"const f = () => f.caller; return f()", "1:19 caller of a function is not allowed in sandboxed code"},
	{"debugger", "1:1 The debugger statement is not allowed in sandboxed code"},
	{"with ({}) {}", "1:1 The with statement is not allowed in sandboxed code"},
	{"return /\\p{L}/u", `1:8 The class \p{…} of a regular expression is not available here: list the characters, as in [a-zà-ÿ]`},
	{"return /[a&&b]/v", "1:8 The flag v of a regular expression is not available here"},
	{"return /(?<=a/", "1:8 Invalid regular expression: /(?<=a/: a group is not closed"},
	{"return /\\b(?=a/", `1:8 Invalid regular expression: /\b(?=a/: a group is not closed`},
	{"return /a{2,1}/", "1:8 Invalid regular expression: /a{2,1}/: the numbers of a repetition are out of order"},
	{"const x: number = 1; return /[z-a]/", "1:29 Invalid regular expression: /[z-a]/: a range is out of order"},
	{"const {a: [b = 1] = []} = {}; eval(b)", "1:31 eval() is not allowed in sandboxed code"},
	{"const {a: [b = 1, [c = 2] = []] = []} = {} as any; /* é */ eval(b)", "1:60 eval() is not allowed in sandboxed code"},
	{"const {a: [b = eval(1)] = []} = {}", "1:16 eval() is not allowed in sandboxed code"},
	{"const {a: [b.c = 1] = []} = {}", `1:13 Expected "]" but found "."`},
	{"const f = ({a: [process = 1] = []}) => process, g = process", "1:53 process is not allowed in sandboxed code"},
	{"return /a/d", "1:8 The flag d of a regular expression is not available here"},
	{"return new Intl.NumberFormat()", "1:12 Intl is not available here: toLocaleString('en-US') is, and all else is to be written out"},
	{"return Buffer.from('a')", "1:8 Buffer is not allowed in sandboxed code: use TextEncoder, TextDecoder, btoa and atob"},
	{"return fetch('http://a')", "1:8 fetch is not allowed in sandboxed code: call a tool, and find it with tools.search"},
	{"return 1; }); evil(); (async function(){", "1:11 Unexpected token }"},
	{"return 1 }, async function () {", "1:10 Unexpected token }"},
	{"return `${1", "1:8 Unexpected end of input: { is never closed"},
	{"if (1) {", "1:8 Unexpected end of input: { is never closed"},
	{"return 'a", "1:8 Unterminated string"},
	{"return /a", "1:8 Unterminated regular expression"},
	{"return 1 /* a", "1:10 Unterminated comment"},
	{"x <!-- y", "1:3 HTML-like comments are not allowed in sandboxed code"},
	{"1\n--> y", "2:1 HTML-like comments are not allowed in sandboxed code"},
	{"#!/usr/bin/env node\nreturn 1", "1:1 A hashbang is not allowed in sandboxed code"},
	{"class B extends A { async *m() { yield super.m() } }", "1:40 super is not available here in the value of a field, nor in an async generator"},
	{"class B extends A { x = super.m() }", "1:25 super is not available here in the value of a field, nor in an async generator"},
	{"async function* g() {}\nreturn super.x", `2:8 Unexpected "super"`},
	{"let a = 1; let a = 2", "1:16 Identifier 'a' has already been declared"},
	{"const a = ;", `1:11 Unexpected ";"`},
	{"let x: number = 1;\nreturn x +* 2", `2:11 Unexpected "*"`},
	{"\xff", "1:1 The source is not valid UTF-8"},
	{"//" + strings.Repeat("x", gate.MaxSource), "1:1 The source is longer than 64 KiB"},
}

func TestARefusalNamesItsPlaceInTheSourceAsGiven(t *testing.T) {
	for _, c := range refused {
		p, refusals := gate.Check(c.source)
		var got []string
		for _, r := range refusals {
			got = append(got, fmt.Sprintf("%d:%d %s", r.Line, r.Column, r.Message))
		}
		if p != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%.100q\nrefused with %s\nwant         %s", c.source, strings.Join(got, "; "), c.want)
		}
	}
}

// passing are sources that are ordinary code.
var passing = []string{
	"", "const f = ({a: [b = 1] = []}) => b; return f({})", ";", "// nothing", "return", "return 1", "```\nreturn 1\n```", "```typescript\nreturn 1 as number\n```\n", "\ufeffreturn 1",
	"function process(x) { return x } return process(1)", "const module = {}; return module", "var require = () => 1; return require()",
	"return [1].map(function eval_(x) { return x })", "try { throw 1 } catch (process) { return process }", "for (const window of [1]) return window",
	"class A { constructor() { this.constructor.name; new this.constructor.Other() } eval() {} static import() {} } return new A()",
	"const o = {eval: 1, require() {}, get process() { return 1 }, 'import': 2}; return o.eval + o.import", "const {process: p, global = 1} = {}; return p",
	"return {caller: 1}.caller", "const call = {}; return call.caller", "return x => x.constructor.name", "label: for (;;) break label",
	"const s = '__proto__ eval( import x'; return s.length // eval(1)", "return /require\\(|[/\"'`({]/.test('x')", "return 4 / 2 / 1", "const a = [1][0] / 2, b = (1) / 2; return a /b/ 1",
	"if (1) /[({]/.test('x')", "return !/(a|\")/.test('b')", "let i = 0; return i++ / 2", "const f = async () => { for await (const x of [1]) {} }; return f()",
	"async function* g() { yield 1 } return g()", "enum E { A, B } return E.B", "type T = Array<Array<string>>; const x = <T>[]; return x!.length satisfies number",
	"return new Map<string, number>([[`${new Set<string>([]).size}`, 1<2]])", "return [x<low, x>(high)]", "return [1 < 2 < 3, 3 > (2 > `${2 > 1 > 0}`) > 1]",
	"export interface A<T> extends B { a: T }\nexport type C = string; const x: A<C> = {}; return x", "return {a: {namespace: 1, module: {}}, export: 1} as any",
	"abstract class A<T extends object> { abstract f(): T; private x?: number } return 1", "interface A { import(x: string): void; export: number } return 1",
	"while (false) {}\nreturn 1", "return `a${`b${1}`}c`", "let a = 1\nlet b = 2\n;[a, b] = [b, a]\nreturn a", "const o = {a: 1}\nreturn o?.a ?? o?.['b']?.()",
	`return "\u{10ffff}"`, "return `\\u{10ffff}${1}`", `const s: string = "\u{10ffff}"; return s`, "const x = await\nPromise.resolve(1)\nreturn x", "return 0 < 1 ? /\\//g : 2", "do ; while (0) return 1", "return new.target === undefined", "for (let i = 5; i --> 0;) ; return 1",
}

func TestOrdinaryCodePasses(t *testing.T) {
	for _, source := range passing {
		if p, refusals := gate.Check(source); p == nil {
			t.Errorf("%q was refused: %+v", source, refusals)
		}
	}
}

// manifests: source → the constant paths of tools; a star at the end: and others.
var manifests = []struct{ source, want string }{
	{"return 1", ""},
	{"await tools.github.listRepos({}); await tools.github['list-issues']({}); return tools.github.listRepos()", "github.list-issues github.listRepos"},
	{"return tools.search({query: 'x'})", ""},
	{"const {search, describe: {tool}} = tools; await search({}); return tool({})", ""},
	{"const {github} = tools; return github.listRepos({})", "github.listRepos"},
	{"const {github: {listRepos: l, ['a' + 'b']: m}} = tools; await l(); return m()", "github.ab github.listRepos"},
	{"const gh = tools.github; const list = gh.listRepos; return list({})", "github.listRepos"},
	{"const gh = tools.github; { const gh = {}; gh.nothing() }", ""},
	{"return tools?.github?.listRepos?.({})", "github.listRepos"},
	{"return tools.a.b.c.d()", "a.b.c.d"},
	{"const k = 'x'; return tools.github[k]()", "*"},
	{"const t = tools; return t.a.b()", "a.b"},
	{"let t = tools; return t.a.b()", "*"},
	{"return [1].map(tools.a.b)", "a.b *"},
	{"f(tools)", "*"},
	{"const {a, ...rest} = tools; return rest.x.y()", "*"},
	{"const tools = {a: {b() {}}}; return tools.a.b()", ""},
	{"async (tools) => tools.a.b()", "a.b"},
	{"async function main({github}) { return github.listRepos() }", "github.listRepos"},
	{"async (t) => { t = 1; return t.a.b() }", "a.b *"},
	{"async (...all) => all[0].a.b()", "*"},
	{"async () => { return tools.a.b() }", "a.b"},
	{"async ({tools}) => tools.a.b()", "a.b"},
	{"async ({ tools: {a} }) => a.b()", "a.b"},
	{"async function main({ tools: t }) { return t.a.b() }", "a.b"},
	{"async ({tools, a}) => a.b()", "a.b"}, {"async ({tools}) => { tools = 1; return tools.a.b() }", "a.b *"},
	{"async ({tools = 1}) => tools.a.b()", "*"},
	{"const f = (x: number): any => tools.a.b({x}); return f(1)", "a.b"},
	{"return tools.a.b({}).then(tools.c.d)", "a.b c.d *"},
	{"return new tools.a.b()", "a.b"},
	{"return tools.a.b`x`", "a.b"},
	{"return tools()", "*"},
	{"return tools.a.b<string>(1)", "a.b"},
	{"return 1 < tools.a.b() < tools.c.d(tools.e)", "a.b c.d *"},
}

func TestTheManifestNamesTheToolsThatTheSourceNames(t *testing.T) {
	for _, c := range manifests {
		p, refusals := gate.Check(c.source)
		if p == nil {
			t.Errorf("%q was refused: %+v", c.source, refusals)
			continue
		}
		got := slices.Clone(p.Tools)
		if p.Dynamic {
			got = append(got, "*")
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q uses %q, want %q", c.source, strings.Join(got, " "), c.want)
		}
	}
}
