package ledger_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
)

// torn writes two records that are durable and a group of five of two pages each, and damages
// the file.
func torn(t *testing.T, o ledger.Options, damage func(text string, begin []int) string) {
	t.Helper()
	l := loaded(t, o)
	put(t, l, true, "durable", "durable")
	var group []*ledger.Line
	for range 5 {
		line := event("group", noon)
		line.Body = append(line.Body, `,"message":"`+strings.Repeat("x", 8000)+`"`...)
		group = append(group, line)
	}
	if err := l.Append(group, noon, false); err != nil {
		t.Fatal(err)
	}
	l.Close()
	path := filepath.Join(o.Dir, "proxy", "00000001.jsonl")
	text, begin := read(t, path), []int{0, 0} // of record 1 and on
	for line := range strings.Lines(text) {
		begin = append(begin, begin[len(begin)-1]+len(line))
	}
	if err := os.WriteFile(path, []byte(damage(text, begin)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// signed says in the book of the trail that its line of a number was there.
func signed(t *testing.T, dir string, seq int) {
	t.Helper()
	line := strings.Split(read(t, file(dir, 1)), "\n")[seq-1]
	sum := sha256.Sum256([]byte(line))
	_, key, err := ed25519.GenerateKey(nil)
	if err == nil {
		_, err = checkpoint.In(dir).Add(checkpoint.Checkpoint{Time: noon, Heads: []checkpoint.Head{{Slot: "proxy", Sequence: uint64(seq), Hash: hex.EncodeToString(sum[:])}}}, key)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// without puts something in the place of a part of a text.
func without(text string, from, to int, what string) string {
	return text[:from] + strings.Repeat(what, to-from) + text[to:]
}

// page is where one begins, the first after an offset.
func page(offset int) int { return (offset/4096 + 1) * 4096 }

// A machine that stopped in a group before there was room behind it leaves nothing where the
// disk has not kept a page. Where that is the end, it goes, of a shared slot too: nothing could be
// written behind it. What whole records follow stays for verify to name, since it may have been
// on the disk, and have been waited for.
func TestAGroupWithoutItsEndIsCutOffWhereNoRoomIs(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(text string, begin []int) string
		want   uint64 // the last record that is left
		sound  bool
	}{
		"in the last record":   {func(s string, b []int) string { return without(s, page(b[7]), page(b[7])+3072, "\x00") }, 6, true},
		"the last one's begin": {func(s string, b []int) string { return without(s, page(b[7])-4096, page(b[7]), "\x00") }, 5, true},
		"all but the end":      {func(s string, b []int) string { return without(s, b[3], page(b[7])+3072, "\x00") }, 2, true},
		"two, with records between": {func(s string, b []int) string {
			return without(without(s, page(b[4]), page(b[4])+512, "\x00"), page(b[7]), page(b[7])+512, "\x00")
		}, 6, false},
		"in a record":         {func(s string, b []int) string { return without(s, page(b[5]), page(b[5])+4096, "\x00") }, 7, false},
		"the group's begin":   {func(s string, b []int) string { return without(s, b[3], 4096, "\x00") }, 7, false},
		"other bytes of zero": {func(s string, b []int) string { return without(s, b[6]+200, b[6]+203, "\x00") }, 7, false},
		"room in the making": {func(s string, b []int) string {
			return without(s, page(b[5]), page(b[5])+4096, " ") + strings.Repeat(" ", 512) + strings.Repeat("\x00", 4096)
		}, 4, true},
	} {
		for _, shared := range []bool{false, true} {
			if shared && name == "room in the making" { // which a shared one has not
				continue
			}
			o := ledger.Options{Dir: t.TempDir(), Slot: "proxy", Shared: shared}
			torn(t, o, c.damage)
			l := loaded(t, o)
			if last, _ := l.Tip(); last != c.want {
				t.Errorf("%s, shared %v: it goes on behind record %d, not %d", name, shared, last, c.want)
			}
			put(t, l, true, "later")
			l.Close()
			report, err := proof.Verify(t.Context(), o.Dir, proof.Trust{})
			if err != nil || report.OK != c.sound {
				t.Errorf("%s, shared %v: %v\n%s", name, shared, err, report)
			}
		}
	}
}

// What a checkpoint has named was on the disk: damage before it is none of a group that a
// machine stopped in, and stays for verify to name.
func TestWhatWasSignedIsNeverCutOff(t *testing.T) {
	edited := func(s string) string { return strings.Replace(s, "durable", "durAble", 1) }
	for name, c := range map[string]struct {
		damage func(text string, begin []int) string // record 5 is signed
		want   uint64
	}{
		"a hole before it": {func(s string, b []int) string { return without(s, page(b[4]), page(b[4])+4096, "\x00") }, 7},
		"a hole before it and one after": {func(s string, b []int) string {
			return without(without(s, page(b[4]), page(b[4])+4096, "\x00"), page(b[7]), page(b[7])+4096, "\x00")
		}, 6},
		"an edit before it, and room": {func(s string, _ []int) string { return edited(s) + strings.Repeat(" ", 99) }, 7},
		"an edit before it, room, and a hole after": {func(s string, b []int) string {
			return edited(without(s, page(b[6]), page(b[6])+4096, " ")) + strings.Repeat(" ", 99)
		}, 5},
		"an edit of it, and no room": {func(s string, b []int) string { return s[:b[5]+400] + "y" + s[b[5]+401:] }, 7},
	} {
		o := ledger.Options{Dir: t.TempDir(), Slot: "proxy"}
		torn(t, o, func(text string, begin []int) string {
			signed(t, o.Dir, 5)
			return c.damage(text, begin)
		})
		l := loaded(t, o)
		if last, _ := l.Tip(); last != c.want {
			t.Errorf("%s: it goes on behind record %d, not %d", name, last, c.want)
		}
		put(t, l, true, "later")
		l.Close()
		report, err := proof.Verify(t.Context(), o.Dir, proof.Trust{})
		if err != nil || report.OK || report.Slots[0].Last != c.want+1 {
			t.Errorf("%s: %v\n%s", name, err, report)
		}
	}
}
