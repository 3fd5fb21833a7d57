package vm_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// stacks: a source that returns texts of errors, one for each way to get hold of one,
// and the places that the first of them names.
var stacks = []struct{ source, want string }{
	{"try { null.x } catch (e) { return e.stack }", "TypeError: Cannot read property 'x' of undefined|at script (1:12)"},
	{"const f = () => {\n  throw new RangeError('r')\n}\ntry { f() } catch ({stack}) { return stack }", "RangeError: r|at f (2:9)|at script (4:8)"},
	{"return new Error('mine').stack", "Error: mine|at script (1:8)"},
	{"return Error('called').stack", "Error: called|at script (1:13)"},
	{"class Mine extends Error { get name() { return 'Mine' } }\nreturn new Mine('m').stack", "Mine: m|at script (2:8)"},
	{"return Reflect.construct(Error, ['r']).stack", "Error: r|at script (1:25)"},
	{"return new AggregateError([1], 'all').stack", "AggregateError: all|at script (1:8)"},
	{"const x: number = 1; interface A {}\nfunction g(a: A): never { throw new Error('ts') }\ntry { g({}) } catch (e: any) { return e.stack }", "Error: ts|at g (2:33)|at script (3:7)"},
	{"return (await Promise.reject().catch(() => [1].map(() => { throw new TypeError('in map') })).catch(e => e)).stack", "TypeError: in map|at script (1:66)|at script (1:51)"},
	{"return (await Promise.allSettled([(async () => { undefined() })()]))[0].reason.stack", "TypeError: Value is not an object: undefined|at script (1:59)|at script (1:64)"},
	{"return (await Promise.any([Promise.reject(1)]).catch(e => e)).stack", "AggregateError: All promises were rejected|"},
	{"try { await (async () => { await null; null.y })() } catch (e) { return e['st' + 'ack'] }", "TypeError: Cannot read property 'y' of undefined|at script (1:45)|at script (1:49)"},
	{"return await tools.demo.fail({}).catch(e => e.stack)", "ToolError: the upstream said no|at script (1:29)"},
	{"try { tools.x() } catch (e) { return e.stack }", "TypeError: tools.x is no tool: a tool is called as tools.service.action({…}); find one with await tools.search({query})|at script (1:14)"},
	{"try { structuredClone(() => 1) } catch (e) { return e.stack }", "Error: A function cannot be cloned|at script (1:22)"},
	{"try { new RegExp('(') } catch (e) { return e.stack }", "SyntaxError: Invalid regular expression: /(/|at script (1:7)"},
	{"class E extends Error { constructor(m) { super(m); this.name = 'E'; Error.captureStackTrace(this, E) } }\ntry { throw new E('own') } catch (e) { return e.stack }", "E: own|at script (1:92)|at script (2:13)"},
	{"const make = () => fill({message: 'm'})\nfunction fill(o) { Error.captureStackTrace(o, fill)\n return o }\nreturn make().stack", "Error: m|at make (1:24)|at script (4:12)"},
	{"const make = () => {\n  const o = {message: 'm'}\n  Error.captureStackTrace(o)\n  return o\n}\nreturn make().stack", "Error: m|at make (3:26)|at script (6:12)"},
	{"try { throw Object.assign(new Error('a'), {stack: 'own words'}) } catch (e) { return e.stack }", "own words"},
	{"let seen; class P extends Promise { constructor(f) { super((ok, no) => f(ok, e => { seen ??= e.stack; no(e) })) } }\nawait P.resolve().then(() => null.x).catch(() => 0); return seen", "TypeError: Cannot read property 'x' of undefined|at script (2:35)"},
	{"let seen; Promise.all.call(function (f) { f(() => 0, e => { seen = e.stack }) }, 5); return seen", "TypeError: Value is not an object: undefined|at script (1:27)"},
	{"function* g() { try { yield 1 } catch (e) { yield e.stack } }\nconst i = g(); i.next(); try { null.z } catch (e) { return i.throw(e).value }", "TypeError: Cannot read property 'z' of undefined|at script (2:37)"},
}

// A script that reads the stack of an error reads places of its own text.
func TestAStackNamesTheScriptsOwnPlacesOnly(t *testing.T) {
	for _, c := range stacks {
		got, _ := value(t, c.source).(string)
		rows := strings.Split(got, "\n")
		for i := range rows {
			rows[i] = strings.TrimSpace(rows[i])
		}
		if text := strings.Join(rows, "|"); text != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.source, text, c.want)
		}
		if engine := engineWords.FindString(got); engine != "" {
			t.Errorf("%s\nspeaks of the engine: %q in %s", c.source, engine, got)
		}
	}
}

// engineWords are signs of how the engine is made.
var engineWords = regexp.MustCompile(`native|kimbap:|<eval>|` + goWords.String())

// What errors say is of the language, also where the engine's own words would be others.
func TestWhatErrorsSayIsNotOfTheEngine(t *testing.T) {
	for source, want := range map[string]string{
		"try { `${Object.create(null)}` } catch (e) { return e.message }":                                                         "Cannot convert object to primitive value",
		"return await (async () => +{valueOf: null, toString: null})().catch(e => e.message)":                                     "Cannot convert object to primitive value",
		"try { [1].map(Object.create(null)) } catch (e) { return e.message }":                                                     "Cannot convert object to primitive value",
		"try { (1).toFixed.call(new Proxy({}, {get() { null.x }})) } catch (e) { return e.message }":                              "Value is not a number: [object Object]",
		"try { Uint8Array.fromHex('zz') } catch (e) { return e.name + e.message }":                                                "SyntaxErrorThis is no text of hexadecimal digits",
		"try { Object.prototype.toLocaleString.call(Object.create(null)) } catch (e) { return e.message }":                        "This method cannot do that with this object",
		"try { 'a'.repeat(Infinity) } catch (e) { return e.name }":                                                                "RangeError",
		"try { 'a'.match('(') } catch (e) { return e.message }":                                                                   "Unterminated group",
		"try { 'a'.search('[') } catch (e) { return e.message }":                                                                  "Unterminated character class",
		"const C = /a/['constr' + 'uctor']; try { new C('a(?<=b') } catch (e) { return e.message }":                               "Invalid regular expression: /a(?<=b/",
		"try { 'a'.match('(?<=') } catch (e) { return e.message }":                                                                "Invalid regular expression: /(?<=/: a group is not closed",
		"const C = /a/['constr' + 'uctor']; try { new C('\\\\p{L}', 'u'); return 'made' } catch (e) { return e.message }":         `The class \p{…} of a regular expression is not available here: list the characters, as in [a-zà-ÿ]`,
		"const C = /a/['constr' + 'uctor']; return new C('b+', 'g')[Symbol.replace]('abba', '-')":                                 "a-a",
		"const C = (() => 1)['constr' + 'uctor']; try { C('return 1') } catch (e) { return e.message + (e instanceof TypeError)}": "Text cannot be made code in sandboxed codetrue",
		"return [Error, TypeError, Promise.prototype.then, console.log, Math.max, setTimeout].map(f => f.name + f.length).join()": "Error1,TypeError1,then2,log0,max2,setTimeout2",
		"return [new TypeError('a') instanceof Error, Object.getPrototypeOf(TypeError) === Error, new TypeError('').constructor === TypeError, Object.keys(new Error('x')).length, new Error('a', {cause: 1}).cause, Error.isError(new RangeError())].join()": "true,true,true,0,1,true",
		"try { null.x } catch (e) { return [e instanceof TypeError, e.constructor === TypeError, Object.prototype.toString.call(e)].join() }":                                                                                                                 "true,true,[object Error]",
		"try { const {data} = undefined } catch (e) { return e.message }":             "Cannot destructure undefined or null, nor use it as an object",
		"return await (async ({a: {b}}) => b)({}).catch(e => e.message)":              "Cannot destructure undefined or null, nor use it as an object",
		"try { for (const x of undefined); } catch (e) { return e.message }":          "undefined is not iterable",
		"try { const [a] = null } catch (e) { return e.message }":                     "null is not iterable",
		"try { [].nope() } catch (e) { return e.message }":                            "nope is not a function",
		"try { ({g: {}}).g() } catch (e) { return e.message }":                        "[object Object] is not a function",
		"try { (function* () { yield* 5 })().next() } catch (e) { return e.message }": "object is not iterable",
		"try { for await (const x of 5); } catch (e) { return e.message }":            "object is not iterable",
	} {
		if got := value(t, source); got != want {
			t.Errorf("%s\n got %v\nwant %s", source, got, want)
		}
	}
}

// Error.captureStackTrace is no standard, but stands in most classes of errors: whoever
// wrote one must not get a TypeError in its place.
func TestAStackCanBeCaptured(t *testing.T) {
	for source, want := range map[string]any{
		"class E extends TypeError { constructor() { super('e'); E.captureStackTrace?.(this, this.constructor) } } try { throw new E() } catch (e) { return e instanceof E }": true,
		"const o = {}; return [Error.captureStackTrace(o) === undefined, Object.keys(o).length, typeof o.stack].join()":                                                       "true,0,string",
		"try { Error.captureStackTrace(5) } catch (e) { return e.name }":                                                                                                      "TypeError",
		"try { Error.captureStackTrace(Object.freeze({})) } catch (e) { return e.name }":                                                                                      "TypeError",
		"const o = {get name() { throw new RangeError() }}; try { Error.captureStackTrace(o) } catch (e) { return e.name }":                                                   "RangeError",
		"try { Error.captureStackTrace(tools.demo) } catch (e) { return e.name }":                                                                                             "TypeError",
	} {
		if got := value(t, source); got != want {
			t.Errorf("%s\n got %v\nwant %v", source, got, want)
		}
	}
}

// The ways above cost nothing but words: what is caught is what was thrown.
func TestWhatIsCaughtIsWhatWasThrown(t *testing.T) {
	for source, want := range map[string]any{
		"try { throw 1 } catch (e) { return e }":                                                                                               1.0,
		"try { throw null } catch { return 2 }":                                                                                                2.0,
		"try { throw {a: [3]} } catch ({a: [b = 1], c = 4}) { return b + c }":                                                                  7.0,
		"const o = Object.freeze(new Error('f')); try { throw o } catch (e) { return e === o }":                                                true,
		"let n = 0; class E extends Error { get message() { n++; throw new E() } }\ntry { throw new E() } catch (e) { return e instanceof E }": true,
		"const p = new Proxy(new Error('p'), {}); try { throw p } catch (e) { return e === p }":                                                true,
		"return await Promise.reject(5).then(1, v => v)":                                                                                       5.0,
		"return await Promise.resolve(6).then(v => v, undefined)":                                                                              6.0,
		"return await Promise.reject(7).finally(() => 0).catch(v => v)":                                                                        7.0,
	} {
		if got := value(t, source); got != want {
			t.Errorf("%s = %v, want %v", source, got, want)
		}
	}
	if done := run(t, "try { null.x } catch (e) {\n throw e }", newHost(), 30*time.Second); done.Failure == nil || done.Failure.Line != 1 || done.Failure.Column != 12 {
		t.Errorf("thrown again: %+v", done.Failure)
	}
}
