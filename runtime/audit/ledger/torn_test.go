package ledger_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
)

// A group that a machine stopped in may lack any sector of it, which then is room or nothing:
// from there on it goes, wherever that is. What such a record could be and is not stays.
func TestAGroupWithAHoleIsCutOff(t *testing.T) {
	long := func(text string, size int) string {
		return `,"message":"` + strings.Repeat("x", 600) + strings.Repeat(text, size) + strings.Repeat("x", 600) + `"`
	}
	for name, c := range map[string]struct {
		line   string // of which the group has five
		nth    int    // the one that is damaged
		size   int    // of the hole
		fill   byte
		behind string // in the place of the lines after it
		want   uint64 // the last record that is left, of two before the group
	}{
		"a page of nothing":                 {long("x", 12000), 3, 4096, 0, "", 4},
		"a page of room":                    {long("x", 12000), 3, 4096, ' ', "", 4},
		"a sector of room":                  {long("x", 1200), 3, 512, ' ', "", 4},
		"a sector of nothing":               {long("x", 1200), 3, 512, 0, "", 4},
		"nothing in the last":               {long("x", 1200), 5, 512, 0, "", 6},
		"a page of room in the last":        {long("x", 12000), 5, 4096, ' ', "", 6},
		"blanks that it has":                {long(" ", 1500), 3, 0, ' ', "", 7},
		"blanks that the last has":          {long(" ", 1500), 5, 0, ' ', "", 7},
		"blanks, and the next did not come": {long(" ", 1500), 3, 0, ' ', "{\"seq\":6,\n", 5},
	} {
		dir := t.TempDir()
		o := ledger.Options{Dir: dir, Slot: "proxy"}
		l := loaded(t, o)
		put(t, l, true, "durable", "durable")
		var group []*ledger.Line
		for range 5 {
			line := event("group", noon)
			line.Body = append(line.Body, c.line...)
			group = append(group, line)
		}
		if err := l.Append(group, noon, false); err != nil {
			t.Fatal(err)
		}
		l.Close()
		lines := strings.SplitAfter(read(t, file(dir, 1)), "\n")
		begin := len(strings.Join(lines[:2+c.nth-1], ""))
		data := []byte(strings.Join(lines, ""))
		if c.size > 0 {
			at := ((begin+200)/c.size + 1) * c.size // behind what links it
			if at+c.size > begin+len(lines[2+c.nth-1])-2 {
				t.Fatalf("%s: no such hole fits into the line", name)
			}
			copy(data[at:], bytes.Repeat([]byte{c.fill}, c.size))
		}
		if c.behind != "" {
			data = append(data[:begin+len(lines[2+c.nth-1])], c.behind...)
		}
		data = append(data, bytes.Repeat([]byte{' '}, 8192)...)
		if err := os.WriteFile(file(dir, 1), data, 0o600); err != nil {
			t.Fatal(err)
		}
		l = loaded(t, o)
		if last, _ := l.Tip(); last != c.want {
			t.Errorf("%s: it goes on behind record %d, not %d", name, last, c.want)
		}
		put(t, l, true, "later")
		l.Close()
		audittest.Verified(t, dir)
	}
}
