package vm_test

import (
	"encoding/json"
	"testing"
	"time"
)

// What goja reads as two comparisons may be types that are passed, and what esbuild reads
// as types that are passed may be two comparisons.
func TestTypesThatArePassedAreNoComparisons(t *testing.T) {
	for source, want := range map[string]string{
		"return [...new Set<string>(['a'])]":                                                                                                `["a"]`,
		"return await new Promise<string>((resolve, reject) => resolve('a'))":                                                               `"a"`,
		"class Item { constructor(public n: number) {} } return [1].map<Item>((n) => new Item(n))":                                          `[{"n":1}]`,
		"class Item { constructor(n) { this.n = n } } return [1].map<Item>((n) => new Item(n))":                                             `[{"n":1}]`,
		"return await Promise.all<Array<number>>([[1]])":                                                                                    `[[1]]`,
		"return JSON.parse<Record<string, {a: number[]; b?: 'x' | -1}>>('{\"a\": 1}')":                                                      `{"a":1}`,
		"return [1].map<(x: number) => void>(x => x)":                                                                                       `[1]`,
		"const tag = t => t[0]; return tag<any>`x`":                                                                                         `"x"`,
		"class K {} class V {} return new Map<K, V>([[1, 2]]).get(1)":                                                                       `2`,
		"const all = {Map}; class K {} class V {} return new all.Map<K, V>([[1, 2]]).get(1)":                                                `2`,
		"() => new Map<string,number>([['a', 1]]).size":                                                                                     `1`,
		"({a: new Set<string>(['a']).size})":                                                                                                `{"a":1}`,
		"async function* g() { yield 'a' } for await (const x of g()) return [...new Set<any>([x])]":                                        `["a"]`,
		"const low = 1, high = 5, x = 3; return [x < low, x > (high - 1)]":                                                                  `[false,false]`,
		"const low = 1, high = 5, x = 3; return [x<low, x>(high - 1)]":                                                                      `[false,false]`,
		"async function* g() {} const low = 1, high = 5, x = 3; return [x < low, x > (high - 1)]":                                           `[false,false]`,
		"async function* g() {} const low = 1, high = 5, x = 3; return [x<low, x>(high - 1)]":                                               `[false,false]`,
		"for await (const i of [1]) { const n = 1, m = 2; return [i < n, n > (i), n < m > (i)] }":                                           `[false,false,false]`,
		"const a = 1, b = 2, c = 4, d = 3; return [a<b | c>(d)]":                                                                            `[1]`,
		"const f = ({namespace}: {namespace: string}) => { const r = namespace\n try { return r } finally {} }\nreturn f({namespace: 'k'})": `"k"`,
		"const i = 1, n = 20, k = 1; return [i<n>>(k), i<n>>>(k), i<n && n>(k)]":                                                            `[true,true,true]`,
	} {
		done := run(t, source, newHost(), 30*time.Second)
		if done.Failure != nil || !json.Valid([]byte(done.Value)) || done.Value != want {
			t.Errorf("%s\n got %s %+v\nwant %s", source, done.Value, done.Failure, want)
		}
	}
}
