package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// ended is a script, and how it may end: with one of the kinds, "" for well.
type ended struct {
	code  string
	kinds []frame.Kind
}

// What ends or hangs an engine ends one script: with its kind, in a result of bounded
// size, and this process takes no part in it.
func TestHostileScriptsHaveAResult_EX003_EX004_EX012(t *testing.T) {
	_, client := scripting(t, apptest.Options{Config: "exec: {workers: 2}\n"})
	big := []frame.Kind{frame.KindMemory, frame.KindTimeout}
	slow, threw, well := []frame.Kind{frame.KindTimeout}, []frame.Kind{frame.KindException}, []frame.Kind{""}
	before := residentNow(t)
	for _, c := range []ended{
		{`return "x".repeat(2 ** 40).length`, big},
		{`return new Uint8Array(6e9).length`, []frame.Kind{frame.KindMemory, frame.KindException}},
		{`return (2n ** 100000000n).toString().length`, big},
		{`return new Array(4e8).fill(1).length`, big},
		{`return new Array(2 ** 30).join("xx").length`, big},
		{`return /(x+x+)+\1y/.test("x".repeat(40))`, slow},
		{`return /(?=(a+)+$)^(a+)+$/.test("a".repeat(34) + "!") ? 1 : 2`, append(slow, "")},
		{`throw {toString() { throw 1 }, get message() { throw 2 }}`, threw},
		{`const e = new Error("x"); e.stack = "y".repeat(10 << 20); throw e`, append(big, threw...)},
		{`const e = new Error("x".repeat(10 << 20)); throw e`, append(big, threw...)},
		{`const a = {}; a.a = a; return a`, threw},
		{`return 1n`, threw},
		{`return Symbol("x")`, well},
		{`return () => 1`, well},
		{`return Array(1000).fill("x".repeat(100 << 10))`, big},
	} {
		got := post(t, client, "/v1/exec", map[string]any{"code": c.code, "timeoutMs": 1500}, "")
		if !slices.Contains(c.kinds, got.Kind) || got.Success != (got.Kind == "") || len(got.text) > 64<<10 {
			t.Errorf("%s: %d, %d bytes, %.300s", c.code, got.status, len(got.text), got.text)
		}
	}
	if grown := residentNow(t) - before; grown > 64<<20 {
		t.Errorf("this process grew by %d MiB", grown>>20)
	}
}

// A hundred megabytes of log are cut where the limit is, and the result says so.
func TestLogsAreCutOff_EX013(t *testing.T) {
	t.Parallel()
	_, client := scripting(t, apptest.Options{Config: "exec: {timeout: 60s}\n"})
	got := execute(t, client, `for (let i = 0; i < 10000; i++) console.log("y".repeat(10240)); return "well"`)
	size := 0
	for _, l := range got.Logs {
		size += len(l.Message)
	}
	if string(got.Value) != `"well"` || size < 200<<10 || size > 257<<10 || !strings.Contains(got.Logs[len(got.Logs)-1].Message, "dropped") {
		t.Errorf("%d bytes in %d messages: %.200s", size, len(got.Logs), got.text)
	}
}
