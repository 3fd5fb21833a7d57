// Package audittest is a trail for tests: one that is opened and closed in a line, a
// record to put into it, and hashes that a test can foresee.
//
// It is imported by tests only. Start reading at [Open].
package audittest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Hashes is a [record.Redactor] whose hashes a test can foresee; it can be locked.
type Hashes struct {
	Locked bool
	Stored []string // what the vault holds
}

var _ record.Redactor = Hashes{}

// Known implements [record.Redactor].
func (h Hashes) Known(runtime.Tenant) (func(string) bool, error) {
	if h.Locked {
		return nil, errors.New("locked")
	}
	if h.Stored == nil {
		return nil, nil
	}
	return func(word string) bool { return slices.Contains(h.Stored, word) }, nil
}

// Hash implements [record.Redactor]: "h", a thousand for each byte of the tenant's name
// and one for each of the value.
func (h Hashes) Hash(tenant runtime.Tenant, value string) (string, error) {
	if h.Locked {
		return "", errors.New("locked")
	}
	return fmt.Sprintf("h%d", len(tenant)*1000+len(value)), nil
}

// Record is an allowed read of an agent, just received.
func Record(id string) *runtime.Record {
	return &runtime.Record{
		ID: id, Surface: runtime.SurfaceProxy, Ref: "github.list-pulls",
		Principal: runtime.Principal{ID: "local:1000", Kind: runtime.KindAgent, Tenant: "default", Agent: "local"},
		Verdict:   runtime.Verdict{Effect: runtime.EffectAllow, Rule: "default:low"},
		Target:    runtime.Target{Scheme: "https", Authority: "api.github.com:443", Method: "GET", Path: "/repos/a/b/pulls"},
		Received:  time.Now(),
	}
}

// Mild is a record that need not be on the disk before its request goes on.
func Mild(id string) *runtime.Record {
	r := Record(id)
	r.Action = &runtime.Action{Ref: r.Ref, Risk: runtime.RiskLow, Auth: &runtime.Auth{Type: runtime.AuthNone}}
	return r
}

// Options are those of a log with the slot "proxy" in dir.
func Options(dir string) audit.Options {
	return audit.Options{Dir: dir, Slot: "proxy", Clock: time.Now, Redact: Hashes{}}
}

// Open returns an open log. It is closed at the end of the test, if the test does not.
func Open(t testing.TB, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// Shut closes a log and demands that this went well.
func Shut(t testing.TB, l *audit.Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Lines returns the lines of the slot "proxy", which has one segment.
func Lines(t testing.TB, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "proxy", "00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// Verified demands that the trail in dir is whole, and returns what was found.
func Verified(t testing.TB, dir string) proof.Report {
	t.Helper()
	report, err := proof.Verify(t.Context(), dir, proof.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK {
		t.Fatalf("the ledger does not verify:\n%s", report)
	}
	return report
}

// Entries returns the records that q selects, in the order of time.
func Entries(t testing.TB, dir string, q history.Query) []record.Entry {
	t.Helper()
	var all []record.Entry
	for e, err := range history.Read(t.Context(), dir, q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Kinds are those of entries, with spaces between.
func Kinds(list []record.Entry) string {
	var words []string
	for _, e := range list {
		words = append(words, e.Kind)
	}
	return strings.Join(words, " ")
}

// Intents records those of requests from and on, before to.
func Intents(t testing.TB, l *audit.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := l.Intent(t.Context(), Record(fmt.Sprint("req_", i))); err != nil {
			t.Fatal(err)
		}
	}
}

// Step moves the clock on until the condition holds.
func Step(clock *runtimetest.Clock, reached func() bool) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if reached() {
			return nil
		}
		clock.Advance(time.Second)
	}
	return errors.New("never")
}
