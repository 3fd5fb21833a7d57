package vm_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// show is put before each case: it runs the code, and tells what came of it in words
// that another engine says too.
const (
	show = `const show = (v, d = 0) => {
  if (v === null || v === undefined || typeof v === "boolean") return String(v);
  if (typeof v === "string") return JSON.stringify(v);
  if (typeof v === "number") return Object.is(v, -0) ? "-0" : String(v);
  if (typeof v === "bigint") return v + "n";
  if (typeof v !== "object") return typeof v;
  if (d > 3) return "...";
  try {
    if (Array.isArray(v)) {
      const out = [];
      for (let i = 0; i < v.length && i < 20; i++) out.push(i in v ? show(v[i], d + 1) : "hole");
      return "[" + out.join() + "]";
    }
    if (v instanceof Error) return "error " + v.name;
    return "{" + Object.keys(v).map(k => k + ":" + show(v[k], d + 1)).join() + "}";
  } catch (e) { return "unshowable" }
};
try { return "value " + show(await (async () => {
`
	shown = "\n})()) } catch (e) { return \"throw \" + (Error.isError(e) ? e.name : show(e)) }"
)

// Odd code, its values and its errors: what the language says of it, as Node.js 20 has
// it, and where this engine says something else, that too, and why. An error of the
// language can be caught by the script; "end" is one that cannot.
func TestOddCodeDoesWhatTheLanguageSays(t *testing.T) {
	file, err := os.Open("testdata/language/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, cases := bufio.NewScanner(file), 0
	for lines.Scan() {
		var c struct{ ID, Code, Value, Here, Why string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%v in %.100s", err, lines.Text())
		}
		cases++
		want := c.Value
		if c.Here != "" {
			want = c.Here
		}
		if (c.Here == "") != (c.Why == "") || c.Here == c.Value {
			t.Errorf("%s: a difference has a reason, and what is none has none", c.ID)
		}
		done := run(t, show+c.Code+shown, newHost(), 30*time.Second)
		got := done.Value
		if done.Failure != nil {
			got = "end " + string(done.Failure.Kind)
		} else if err := json.Unmarshal([]byte(done.Value), &got); err != nil {
			t.Errorf("%s: %v in %s", c.ID, err, done.Value)
		}
		if got != want {
			t.Errorf("%s: %s, want %s\n%s", c.ID, got, want, c.Code)
		}
	}
	if err := lines.Err(); err != nil || cases < 1000 {
		t.Fatalf("%d cases: %v", cases, err)
	}
}
