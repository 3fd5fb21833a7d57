package receipt_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

func at(seq uint64) receipt.Mark {
	return receipt.Mark{Sequence: seq, Hash: sha256.Sum256(fmt.Append(nil, seq))}
}

// loaded is the book of a slot as the next process reads it.
func loaded(t *testing.T, dir string) *receipt.Book {
	t.Helper()
	b := receipt.In(dir, "proxy")
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

var long = "file:/" + strings.Repeat("é\x00<", 300) // a name that is longer than an entry

func TestABookKeepsMarks(t *testing.T) {
	dir := t.TempDir()
	b := loaded(t, dir)
	if _, some := receipt.Least(dir, "proxy"); some || b.Damaged() || len(b.Entries()) != 0 {
		t.Error("without a file there are marks")
	}
	if b.Put("a", at(1)) == nil {
		t.Error("a mark without a place was written")
	}
	if err := b.Replace([]receipt.Entry{{Sink: "a", Mark: at(7)}, {Sink: long, Mark: at(5)}, {Sink: long + "x", Mark: at(6)}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Put("a", at(1<<64-1)), b.Put(long+"x", at(9)), b.Sync()); err != nil {
		t.Fatal(err)
	}
	next := loaded(t, dir)
	for name, want := range map[string]uint64{"a": 1<<64 - 1, long: 5, long + "x": 9} {
		if m, found := next.Mark(name); !found || m != at(want) {
			t.Errorf("%.20q: %v %v, want %d", name, m, found, want)
		}
	}
	if _, found := next.Mark("b"); found || next.Damaged() {
		t.Error("a sink without a mark has one")
	}
	if least, some := receipt.Least(dir, "proxy"); !some || least != 5 {
		t.Errorf("the least is %d, %v", least, some)
	}
	if err := next.Replace(nil); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// However a file is harmed, a mark that stands in it is read as it was, or the book says that
// it is damaged: none is taken for another, and none is missed without a word.
func TestAHarmedBookSaysSo(t *testing.T) {
	dir := t.TempDir()
	b := loaded(t, dir)
	if err := b.Replace([]receipt.Entry{{Sink: "a", Mark: at(7)}, {Sink: "b", Mark: at(5)}}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	whole, err := os.ReadFile(b.Path())
	if err != nil {
		t.Fatal(err)
	}
	judge := func(how string, data []byte) {
		t.Helper()
		if err := os.WriteFile(b.Path(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		b := loaded(t, dir)
		defer b.Close()
		found := 0
		for name, want := range map[string]uint64{"a": 7, "b": 5} {
			if m, is := b.Mark(name); is {
				if found++; m != at(want) {
					t.Errorf("%s: the mark of %s is %v", how, name, m)
				}
			}
		}
		if found < 2 && !b.Damaged() {
			t.Errorf("%s: %d marks, and nothing is said", how, found)
		}
		if least, some := receipt.Least(dir, "proxy"); !some || least != 0 && least != 5 {
			t.Errorf("%s: the least is %d, %v", how, least, some)
		}
	}
	for size := range len(whole) {
		judge(fmt.Sprintf("cut to %d bytes", size), whole[:size])
	}
	for i := range whole {
		for _, with := range []byte{' ', '9', whole[i] ^ 1} {
			data := bytes.Clone(whole)
			data[i] = with
			judge(fmt.Sprintf("byte %d is %q", i, with), data)
		}
	}
	judge("swapped", append(bytes.Clone(whole[512:]), whole[:512]...))
	judge("twice", append(bytes.Clone(whole), whole...))
	judge("one twice", append(bytes.Clone(whole[:512]), whole[:512]...))
	other := receipt.In(dir, "run")
	if err := other.Replace([]receipt.Entry{{Sink: "a", Mark: at(9)}, {Sink: "b", Mark: at(9)}}); err != nil {
		t.Fatal(err)
	}
	other.Close()
	data, err := os.ReadFile(other.Path())
	if err != nil {
		t.Fatal(err)
	}
	judge("of another slot", data)
}

// chain writes a ledger of so many records, with so many in a segment, and returns its marks;
// that of number 0 is the beginning.
func chain(t *testing.T, dir string, records, each int) (marks []receipt.Mark) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "proxy"), 0o700); err != nil {
		t.Fatal(err)
	}
	marks = append(marks, receipt.Beginning("proxy"))
	for n := 1; n <= records; n++ {
		line := segment.AppendLink(nil, uint64(n), marks[n-1].Hash)
		line = append(line, `"kind":"event","event":"policy.changed"}`...)
		marks = append(marks, receipt.Mark{Sequence: uint64(n), Hash: sha256.Sum256(line)})
		f, err := os.OpenFile(filepath.Join(dir, "proxy", segment.Name((n-1)/each+1)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(append(line, '\n'))
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return marks
}

// told is what a reader hands out: numbers of lines, "-3" for three that are lost, "?" for
// doubt of the mark.
func told(t *testing.T, r *receipt.Reader, after receipt.Mark) (out []string, last receipt.Mark) {
	t.Helper()
	defer r.Close()
	for last = after; ; {
		b, doubt, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, last
		}
		if err != nil {
			t.Fatal(err)
		}
		if doubt != nil {
			out = append(out, "?")
		}
		if b.Lost > 0 {
			out = append(out, fmt.Sprint("-", b.Lost))
			if len(b.Lines) > 0 || b.Cause == nil {
				t.Errorf("%d lines with what is lost, because of %v", len(b.Lines), b.Cause)
			}
		}
		for _, line := range b.Lines {
			link, err := segment.ParseLink(line)
			if err != nil || line[len(line)-1] != '\n' {
				t.Errorf("%q: %v", line, err)
			}
			out = append(out, fmt.Sprint(link.Sequence))
		}
		last = b.Last
	}
}

func TestAReaderHandsOutWhatIsGood(t *testing.T) {
	lines := func(edit func(l []string) []string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, "proxy", segment.Name(1))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			l := edit(strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"))
			if err := os.WriteFile(path, []byte(strings.Join(l, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(number int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, "proxy", segment.Name(number))); err != nil {
				t.Fatal(err)
			}
		}
	}
	edited := func(i int) func(*testing.T, string) {
		return lines(func(l []string) []string { l[i] = strings.Replace(l[i], "policy", "pelicy", 1); return l })
	}
	strange := receipt.Mark{Sequence: 3, Hash: sha256.Sum256([]byte("another"))}
	for name, c := range map[string]struct {
		each  int // records of a segment
		after receipt.Mark
		harm  func(*testing.T, string)
		want  string
	}{
		"all":                               {each: 9, want: "1 2 3 4 5 6"},
		"across segments":                   {each: 2, want: "1 2 3 4 5 6"},
		"behind a mark":                     {each: 2, after: receipt.Mark{Sequence: 3}, want: "4 5 6"},
		"behind the last":                   {each: 2, after: receipt.Mark{Sequence: 6}, want: ""},
		"another ledger's mark":             {each: 2, after: strange, want: "? 1 2 3 4 5 6"},
		"the record of the mark was edited": {each: 9, after: receipt.Mark{Sequence: 3}, harm: edited(2), want: "4 5 6"},
		"it is gone":                        {each: 3, after: receipt.Mark{Sequence: 3}, harm: remove(1), want: "4 5 6"},
		"an edited line":                    {each: 9, harm: edited(2), want: "1 2 -1 4 5 6"},
		"the first was edited":              {each: 9, harm: edited(0), want: "-1 2 3 4 5 6"},
		"the last but one":                  {each: 9, harm: edited(4), want: "1 2 3 4 -1 6"},
		"the last was edited":               {each: 9, harm: edited(5), want: "1 2 3 4 5 -1"},
		"a line is removed":                 {each: 9, harm: lines(func(l []string) []string { return slices.Delete(l, 2, 3) }), want: "1 -2 4 5 6"},
		"no record":                         {each: 9, harm: lines(func(l []string) []string { l[2] = "{}"; return l }), want: "1 -2 4 5 6"},
		"a long line":                       {each: 9, harm: lines(func(l []string) []string { l[2] = strings.Repeat("x", 3<<20); return l }), want: "1 -2 4 5 6"},
		"something between":                 {each: 9, harm: lines(func(l []string) []string { return slices.Insert(l, 2, "{}") }), want: "1 2 3 4 5 6"},
		"a line twice":                      {each: 9, harm: lines(func(l []string) []string { return slices.Insert(l, 3, l[2]) }), want: "1 2 3 4 5 6"},
		"number 0": {each: 9, harm: lines(func(l []string) []string {
			return slices.Insert(l, 0, `{"seq":0,"prev":"`+strings.Repeat("0", 64)+`","kind":"event","x":1}`)
		}), want: "1 2 3 4 5 6"},
		"the last is missing":         {each: 9, harm: lines(func(l []string) []string { return l[:5] }), want: "1 2 3 4 -2"},
		"the first file is gone":      {each: 2, harm: remove(1), want: "-2 3 4 5 6"},
		"a file is gone":              {each: 2, harm: remove(2), want: "1 -3 5 6"},
		"two are edited":              {each: 9, harm: lines(func(l []string) []string { l[1], l[4] = l[1]+" ", l[4]+" "; return l }), want: "1 -1 3 4 -1 6"},
		"its first line is no record": {each: 3, after: receipt.Mark{Sequence: 5}, harm: func(t *testing.T, dir string) { lines(func(l []string) []string { l[0] = "{}"; return l })(t, dir) }, want: "6"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			marks := chain(t, dir, 6, c.each)
			after := c.after
			if after != strange {
				after = marks[after.Sequence]
			}
			if c.harm != nil {
				c.harm(t, dir)
			}
			got, last := told(t, receipt.After(dir, "proxy", after, marks[6]), after)
			if strings.Join(got, " ") != c.want {
				t.Errorf("it hands out %v, want %s", got, c.want)
			}
			if last != marks[6] {
				t.Errorf("at the end the mark is that of record %d", last.Sequence)
			}
		})
	}
}

// Much is handed out in parts, and each has the mark of its last line.
func TestAReaderHandsOutParts(t *testing.T) {
	dir := t.TempDir()
	marks := chain(t, dir, 1300, 600)
	r, next := receipt.After(dir, "proxy", marks[5], marks[1290]), 6 // of what is behind the last nothing counts
	defer r.Close()
	for {
		b, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(b.Lines) > 512 || b.Last != marks[next+len(b.Lines)-1] {
			t.Fatalf("%d lines to record %d: %v", len(b.Lines), b.Last.Sequence, err)
		}
		next += len(b.Lines)
	}
	if next != 1291 {
		t.Errorf("the last is %d", next-1)
	}
}

// What sinks lack is told from the files alone, also while nobody writes.
func TestLacks(t *testing.T) {
	dir := t.TempDir()
	marks := chain(t, dir, 6, 2)
	b := loaded(t, dir)
	if err := b.Replace([]receipt.Entry{{Sink: "a", Mark: marks[2]}, {Sink: "b", Mark: marks[6]}}); err != nil {
		t.Fatal(err)
	}
	got, err := receipt.Lacks(dir)
	if want := []receipt.Lack{{Sink: "a", Slot: "proxy", Records: 4}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := receipt.Lacks(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
}
