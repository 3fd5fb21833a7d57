package vm_test

import (
	"encoding/json"
	"testing"
	"time"
)

// What scripts reach for and the engine lacks: source → the JSON it returns.
var furnished = []struct{ source, want string }{
	{`return Object.groupBy([1,2,3], n => n % 2 ? 'odd' : 'even')`, `{"odd":[1,3],"even":[2]}`},
	{`return [...Map.groupBy([1,2,3], n => n > 1)]`, `[[false,[1]],[true,[2,3]]]`},
	{`const {promise, resolve} = Promise.withResolvers(); resolve(4); return promise`, `4`},
	{`return await Promise.try(x => x + 1, 2)`, `3`},
	{`return Array.fromAsync([1, Promise.resolve(2)], x => x * 2)`, `[2,4]`},
	{`async function* g() { yield 1; yield 2 } return Array.fromAsync(g())`, `[1,2]`},
	{`const o = {async *[Symbol.asyncIterator]() { yield 1; yield 2 }}; let s = 0; for await (const x of o) s += x; return s`, `3`},
	{`const a = {d: new Date(5), m: new Map([[1, new Set([2])]]), l: [1,,3]}; a.self = a; const b = structuredClone(a); return [b.self === b, b !== a, b.d.getTime(), [...b.m.get(1)], b.l.length]`, `[true,true,5,[2],3]`},
	{`try { structuredClone({f() {}}) } catch (e) { return e.name }`, `"DataCloneError"`},
	{`return [...new TextEncoder().encode('aé€😀')]`, `[97,195,169,226,130,172,240,159,152,128]`},
	{`return new TextDecoder().decode(new Uint8Array([97,195,169,226,130,172,240,159,152,128]))`, `"aé€😀"`},
	{`return new TextDecoder().decode(new Uint8Array([0xff, 0x61, 0xe2, 0x82, 0x62]))`, "\"\ufffda\ufffdb\""},
	{`try { new TextDecoder('utf-8', {fatal: true}).decode(new Uint8Array([0xff])) } catch (e) { return e.name }`, `"TypeError"`},
	{`return [btoa('hello'), btoa(''), btoa('a'), atob('aGVsbG8='), atob(' aGVs bG8')]`, `["aGVsbG8=","","YQ==","hello","hello"]`},
	{`try { btoa('€') } catch (e) { return e.name }`, `"InvalidCharacterError"`},
	{`return [(1234.5).toLocaleString('en-US'), (1234567.891).toLocaleString(), (0.5).toLocaleString('en-US', {style: 'percent'}), (-1234.5).toLocaleString('en-US', {style: 'currency', currency: 'USD'}), (1.005).toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2}), 0 .toLocaleString(), (1e21).toLocaleString(), 12345678901234567890n.toLocaleString()]`,
		`["1,234.5","1,234,567.891","50%","-$1,234.50","1.01","0","1,000,000,000,000,000,000,000","12,345,678,901,234,567,890"]`},
	{`return [1e-7.toLocaleString(), (0.0005).toLocaleString(), (999.9995).toLocaleString(), NaN.toLocaleString(), (1234).toLocaleString('en-US', {minimumFractionDigits: 2})]`, `["0","0.001","1,000","NaN","1,234.00"]`},
	{`const d = new Date(Date.UTC(2026, 0, 2, 15, 4, 5)); return [d.toLocaleDateString('en-US'), d.toLocaleTimeString('en-US'), d.toLocaleString('en-US', {timeZone: 'UTC'}), d.toLocaleDateString('en-US', {year: 'numeric', month: 'long', day: 'numeric'}), d.toLocaleDateString('en-US', {weekday: 'short', month: 'short', day: 'numeric'}), d.toLocaleTimeString('en-US', {hour: '2-digit', minute: '2-digit', hour12: false})]`,
		`["1/2/2026","3:04:05 PM","1/2/2026, 3:04:05 PM","January 2, 2026","Fri, Jan 2","15:04"]`},
	{`try { (1).toLocaleString('de-DE') } catch (e) { return e.name + e.message.includes('de-DE') }`, `"RangeErrortrue"`},
	{`try { new Date().toLocaleString('en-US', {timeZone: 'Asia/Seoul'}) } catch (e) { return e.name }`, `"RangeError"`},
	{`return ['a10', 'a2', 'B1'].sort((a, b) => a.localeCompare(b, undefined, {numeric: true, sensitivity: 'base'}))`, `["a2","a10","B1"]`},
	{`return 'é'.localeCompare('e', 'en', {sensitivity: 'base'})`, `0`},
	{`try { new RegExp('\\p{L}', 'u') } catch (e) { return e.name }`, `"SyntaxError"`},
	{`try { new RegExp('x', 'v') } catch (e) { return e.name }`, `"SyntaxError"`},
	{`return [new RegExp('a+', 'g').test('caat'), RegExp('b') instanceof RegExp, /x/ instanceof RegExp, /x/.constructor === RegExp, 'a1b2'.replace(new RegExp('[0-9]', 'g'), ''), 'a,b'.split(new RegExp(','))]`, `[true,true,true,true,"ab",["a","b"]]`},
	{`class R extends RegExp {} return new R('a').test('a') && new R('a') instanceof R`, `true`},
	{`try { new RegExp('a**') } catch (e) { return e.name + ': ' + e.message }`, `"SyntaxError: Invalid regular expression: /a**/"`},
	{`return ['ab'.repeat(2), 'a'.padStart(3, 'xy'), 'a'.padEnd(3)]`, `["abab","xya","a  "]`},
	{`const u = new URL('https://User:p%40ss@Example.COM:443/a/../b c/?q=1&r=%20x#frag'); return [u.href, u.host, u.pathname, u.search, u.hash, u.origin, u.username, u.port, u.searchParams.get('r')]`,
		`["https://User:p%40ss@example.com/b%20c/?q=1&r=%20x#frag","example.com","/b%20c/","?q=1&r=%20x","#frag","https://example.com","User","", " x"]`},
	{`const u = new URL('../x?y=1', 'https://a.test:8080/b/c/d'); u.searchParams.append('z', 'ä b'); u.hash = 'h'; return u.toString()`, `"https://a.test:8080/b/x?y=1&z=%C3%A4+b#h"`},
	{`return [new URL('//h/p', 'http://a/b').href, new URL('?q', 'http://a/b/c?d').href, new URL('#f', 'http://a/b?c').href, new URL('/r', 'http://a/b').href, new URL('', 'http://a/b?c#d').href, new URL('http:x', 'http://a/b/c').href]`,
		`["http://h/p","http://a/b/c?q","http://a/b?c#f","http://a/r","http://a/b?c","http://a/b/x"]`},
	{`return [URL.canParse('nope'), URL.canParse('http://'), URL.canParse('http://a b/'), URL.canParse('http://a:99999/'), URL.canParse('mailto:a@b'), new URL('mailto:a@b').pathname, new URL('http:\\\\h\\p').href]`, `[false,false,false,false,true,"a@b","http://h/p"]`},
	{`const p = new URLSearchParams({a: 1, b: 'x y'}); p.append('a', '2'); p.delete('b'); p.set('c', 'd&e'); return [p.toString(), p.getAll('a'), p.has('b'), p.size, [...p.keys()], new URLSearchParams('?x=1&x=2&y').getAll('x'), new URLSearchParams([['k', 'v']]).get('k')]`,
		`["a=1&a=2&c=d%26e",["1","2"],false,3,["a","a","c"],["1","2"],"v"]`},
	{`return JSON.stringify({u: new URL('http://a/')})`, `"{\"u\":\"http://a/\"}"`},
	{`let s = ''; queueMicrotask(() => s += 'm'); s += 'a'; await null; return s`, `"am"`},
	{`const t = Date.now(); await new Promise(r => setTimeout(r, 250)); return [Date.now() - t, performance.now() >= 250, new Date().getTime() - t]`, `[250,true,250]`},
	{`let n = 0; await new Promise(done => { const id = setInterval((step) => { if ((n += step) >= 6) { clearInterval(id); done() } }, 10, 2) }); return n`, `6`},
	{`let ran = false; const id = setTimeout(() => { ran = true }, 5); clearTimeout(id); clearTimeout('x'); clearTimeout(undefined); await new Promise(r => setTimeout(r, 50)); return ran`, `false`},
	{`const s = []; { using a = {[Symbol.dispose]() { s.push('a') }}, b = {[Symbol.dispose]() { s.push('b') }}; s.push(1) } return s`, `[1,"b","a"]`},
	{`const s = []; { await using a = {async [Symbol.asyncDispose]() { await null; s.push('a') }}; await using none = null; s.push(1) } return s`, `[1,"a"]`},
	{`try { using a = {[Symbol.dispose]() { throw new Error('in the end') }}; throw new Error('first') } catch (e) { return [e.error.message, e.suppressed.message] }`, `["in the end","first"]`},
	{`return [3,1,2].toSorted().with(0, 9).concat([1,2,3].findLast(x => x < 3), [1].at(-1), [[1],[2]].flatMap(x => x))`, `[9,2,3,2,1,1,2]`},
	{`const m = new Map([['a', 1], ['b', 2], ['c', 3]]); return [m.values().map(x => x * 2).toArray(), m.keys().filter((k, i) => i !== 1).toArray(), [...m.entries().take(1)], m.values().drop(1).flatMap(x => [x, x]).toArray()]`, `[[2,4,6],["a","c"],[["a",1]],[2,2,3,3]]`},
	{`const v = () => [1, 2, 3].values(); return [v().reduce((a, b) => a + b), v().reduce((a, b) => a + b, 10), v().some(x => x > 2), v().every(x => x > 2), v().find(x => x > 1), [...'a1b2'.matchAll(/[0-9]/g).map(x => x[0])]]`, `[6,16,true,false,2,["1","2"]]`},
	{`const s = []; function* all() { let i = 0; try { while (true) yield i++ } finally { s.push('closed') } } return [all().filter(x => x % 2).map(x => x * x).drop(1).take(3).toArray(), all().take(0).toArray(), s]`, `[[9,25,49],[],["closed"]]`},
	{`class C extends Iterator { i = 0; next() { return this.i < 3 ? {value: this.i++, done: false} : {done: true} } } return [new C().map(x => x + 1).toArray(), new C() instanceof Iterator, Iterator.from('ab').toArray(), Iterator.from({i: 0, next() { return {value: this.i++} }}).take(2).toArray()]`, `[[1,2,3],true,["a","b"],[0,1]]`},
	{`return [() => new Iterator(), () => Iterator(), () => [].values().map(5), () => [].values().take(-1), () => [].values().reduce((a, b) => a), () => Iterator.from(5), () => [1].values().flatMap(x => 'ab').next(), () => Iterator.prototype.map.call({}, x => x).next()].map(f => { try { return f() } catch (e) { return e.name } })`,
		`["TypeError","TypeError","TypeError","RangeError","TypeError","TypeError","TypeError","TypeError"]`},
	{`console.groupCollapsed('a'); console.timeLog('b'); console.countReset('c'); console.groupEnd(); return 1`, `1`},
	{`return [new Set([1,2]).union(new Set([3])).size, 'abc'.at(-1), 'a-b'.replaceAll('-', '+'), Object.hasOwn({a:1}, 'a'), Object.fromEntries([['a', 1]])]`, `[3,"c","a+b",true,{"a":1}]`},
	{`return JSON.parse('{"a":[1,-0.5e2,true,null,"\\u00e9\\ud83d\\ude00\\n"],"__proto__":{"x":1}}')`, `{"a":[1,-50,true,null,"é😀\n"],"__proto__":{"x":1}}`},
	{`return JSON.parse('[1,{"a":2}]', (k, v) => typeof v === 'number' ? v + 1 : v)`, `[2,{"a":3}]`},
	{`return ['01', '1.', '.5', '+1', '[1,]', '{"a"}', '"\t"', 'nul', '', '1 2', '"\\x"', '-', '1e', '{"a":1,}'].map(t => { try { return JSON.parse(t) } catch (e) { return e.name } }).every(x => x === 'SyntaxError')`, `true`},
	{`return [JSON.stringify({a: [1, undefined, () => 1], b: undefined, d: new Date(0)}), JSON.stringify([1], null, 1), JSON.stringify({a: 1, b: 2}, ['b']), JSON.stringify({a: 1}, (k, v) => k === 'a' ? 9 : v), JSON.stringify(undefined) === undefined, JSON.stringify('\ud800')]`,
		`["{\"a\":[1,null,null],\"d\":\"1970-01-01T00:00:00.000Z\"}","[\n 1\n]","{\"b\":2}","{\"a\":9}",true,"\"\\ud800\""]`},
}

func TestWhatScriptsReachForIsThere(t *testing.T) {
	for _, c := range furnished {
		done := run(t, c.source, newHost(), 30*time.Second)
		if done.Failure != nil {
			t.Errorf("%s\nfailed: %+v", c.source, *done.Failure)
			continue
		}
		var got, want any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		_ = json.Unmarshal([]byte(done.Value), &got)
		if a, b := again(got), again(want); a != b {
			t.Errorf("%s\nreturned %s\nwant     %s", c.source, a, b)
		}
	}
}

func again(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
