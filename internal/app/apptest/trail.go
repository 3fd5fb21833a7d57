package apptest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/proof"
)

// Record is one record of the trail, by the names of its members.
type Record struct {
	Slot       string `json:"-"`
	Seq        uint64 `json:"seq"`
	Kind       string `json:"kind"`
	Intent     uint64 `json:"intent"`
	ID         string `json:"id"`
	Surface    string `json:"surface"`
	Principal  string `json:"principal"`
	Action     string `json:"action"`
	Host       string `json:"host"`
	Method     string `json:"method"`
	Path       string `json:"path"`
	Effect     string `json:"effect"`
	Rule       string `json:"rule"`
	Event      string `json:"event"`
	Result     string `json:"result"`
	Code       string `json:"code"`
	Reason     string `json:"reason"`
	Stage      string `json:"stage"`
	Status     int    `json:"status"`
	Used       string `json:"credential_used"`
	Version    int    `json:"credential_version"`
	Approval   string `json:"approval"`
	Address    string `json:"address"`
	Scrubbed   int    `json:"scrubbed"`
	Line       string `json:"-"`
	Fields     map[string]string
	Args       map[string]any
	Credential string
}

// reading is what was read of the ledger's files. Tests look again and again at files that
// have grown by a line, and with a mebibyte of room behind their lines.
type reading struct {
	mu          sync.Mutex
	now, before []byte              // of one file, with its room
	parsed      map[string]recorded // by file
}

type recorded struct {
	lines   []byte
	records []Record
}

// Records returns what the ledger files hold now, slot by slot, without the
// help of the code that wrote them. A torn last line is left out.
func (k *Kimbap) Records(t testing.TB) []Record {
	t.Helper()
	read := cmp.Or(k.read, &reading{})
	read.mu.Lock()
	defer read.mu.Unlock()
	var out []Record
	for _, file := range k.Segments(t) {
		out = append(out, read.records(t, file)...)
	}
	return out
}

// records parses the lines of a file that it has not seen.
func (r *reading) records(t testing.TB, file string) []Record {
	t.Helper()
	data, seen := r.settled(t, file), r.parsed[file]
	if !bytes.HasPrefix(data, seen.lines) {
		seen = recorded{}
	}
	lines := bufio.NewScanner(bytes.NewReader(data[len(seen.lines):]))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		one := Record{Slot: filepath.Base(filepath.Dir(file)), Line: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v: %s", file, err, lines.Text())
		}
		seen.records = append(seen.records, one)
	}
	seen.lines = append(seen.lines, data[len(seen.lines):]...)
	if r.parsed == nil {
		r.parsed = map[string]recorded{}
	}
	r.parsed[file] = seen
	return seen.records
}

// settled reads the lines of a file that its writer may be overwriting: a read that takes several
// calls could hold a part of before and a part of after. They are valid until the next call.
func (r *reading) settled(t testing.TB, file string) []byte {
	t.Helper()
	for again := 0; ; again++ {
		r.before, r.now = r.now, contents(t, file, r.before)
		if now := wholeLines(r.now); again > 0 && bytes.Equal(wholeLines(r.before), now) || again == 20 { // a busy one may never be still
			return now
		}
	}
}

// contents reads a file into room.
func contents(t testing.TB, file string, room []byte) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	into := bytes.NewBuffer(room[:0])
	if _, err := into.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	return into.Bytes()
}

// wholeLines is what stands before the end of the last line.
func wholeLines(data []byte) []byte {
	if end := bytes.Index(data, []byte("\n ")); end >= 0 && bytes.Equal(data[end+1:len(data)-1], data[end+2:]) {
		return data[:end+1] // then all behind it is spaces
	}
	return data[:bytes.LastIndexByte(data, '\n')+1]
}

// Segments returns the files of the ledger in order.
func (k *Kimbap) Segments(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(k.Dir, "audit", "*", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// Requests returns the records of requests that have come since mark, which is
// what an earlier call of Mark returned. An outcome belongs to its intent: the one of a
// request that was answered before mark may be written after it.
func (k *Kimbap) Requests(t testing.TB, mark map[string]uint64) []Record {
	t.Helper()
	var out []Record
	for _, r := range k.Records(t) {
		if r.Kind != "event" && r.Seq > mark[r.Slot] && (r.Intent == 0 || r.Intent > mark[r.Slot]) {
			out = append(out, r)
		}
	}
	return out
}

// Mark returns the last record of every slot.
func (k *Kimbap) Mark(t testing.TB) map[string]uint64 {
	t.Helper()
	mark := map[string]uint64{}
	for _, r := range k.Records(t) {
		mark[r.Slot] = max(mark[r.Slot], r.Seq)
	}
	return mark
}

// Await waits until n records of requests have come since mark.
func (k *Kimbap) Await(t testing.TB, mark map[string]uint64, n int) []Record {
	t.Helper()
	var out []Record
	Eventually(t, "records in the trail", func() bool { out = k.Requests(t, mark); return len(out) >= n })
	slices.SortStableFunc(out, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Seq, b.Seq)) })
	return out
}

// Verify checks all chains and fails the test when one is broken.
func (k *Kimbap) Verify(t testing.TB) proof.Report {
	t.Helper()
	report, err := k.App.VerifyTrail(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK {
		t.Errorf("the trail does not verify:\n%s", report)
	}
	return report
}

// Short is the form in which tests compare records:
// "kind effect action result code/reason status".
func (r Record) Short() string {
	word := func(s string) string { return cmp.Or(s, "-") }
	out := []string{r.Kind, word(r.Effect), word(r.Action)}
	if r.Kind != "intent" {
		end := word(r.Code)
		if r.Reason != "" {
			end += "/" + r.Reason
		}
		out = append(out, word(r.Result), end)
	}
	return strings.Join(out, " ")
}
