package proof_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

func TestVerifyFindsWhatWasDone(t *testing.T) {
	write := func(t *testing.T, path string, lines []string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		tamper func(t *testing.T, dir string, l []string)
		kind   proof.ProblemKind
		seq    uint64
		line   int
	}{
		{"edited", func(t *testing.T, dir string, l []string) {
			l[2] = strings.Replace(l[2], "api.github.com", "api.gitlab.com", 1)
			write(t, filepath.Join(dir, "00000001.jsonl"), l)
		}, proof.ProblemEdited, 3, 3},
		{"removed", func(t *testing.T, dir string, l []string) {
			write(t, filepath.Join(dir, "00000001.jsonl"), append(l[:2:2], l[3:]...))
		}, proof.ProblemRemoved, 4, 3},
		{"swapped", func(t *testing.T, dir string, l []string) {
			l[2], l[3] = l[3], l[2]
			write(t, filepath.Join(dir, "00000001.jsonl"), l)
		}, proof.ProblemOrder, 4, 3},
		{"doubled", func(t *testing.T, dir string, l []string) {
			write(t, filepath.Join(dir, "00000001.jsonl"), append(l[:3:3], l[2:]...))
		}, proof.ProblemOrder, 3, 4},
		{"not a record", func(t *testing.T, dir string, l []string) {
			l[2] = `{"seq":3}`
			write(t, filepath.Join(dir, "00000001.jsonl"), l)
		}, proof.ProblemForm, 0, 3},
		{"head kept, rest broken", func(t *testing.T, dir string, l []string) {
			l[2] = l[2][:len(l[2])-1]
			write(t, filepath.Join(dir, "00000001.jsonl"), l)
		}, proof.ProblemForm, 0, 3},
		{"beginning removed", func(t *testing.T, dir string, l []string) {
			write(t, filepath.Join(dir, "00000001.jsonl"), l[1:])
		}, proof.ProblemRemoved, 2, 1},
		{"first file gone", func(t *testing.T, dir string, l []string) {
			if err := os.Rename(filepath.Join(dir, "00000001.jsonl"), filepath.Join(dir, "00000002.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, proof.ProblemSegment, 1, 0},
		{"slot renamed", func(t *testing.T, dir string, l []string) {
			if err := os.Rename(dir, filepath.Join(filepath.Dir(dir), "other")); err != nil {
				t.Fatal(err)
			}
		}, proof.ProblemEdited, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := audittest.Open(t, audittest.Options(dir))
			for i := range 6 {
				if err := l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_", i))); err != nil {
					t.Fatal(err)
				}
			}
			audittest.Shut(t, l)
			audittest.Verified(t, dir)
			c.tamper(t, filepath.Join(dir, "proxy"), audittest.Lines(t, dir))
			report, err := proof.Verify(t.Context(), dir, proof.Trust{})
			if err != nil {
				t.Fatal(err)
			}
			if report.OK || len(report.Slots[0].Problems) == 0 {
				t.Fatalf("not found:\n%s", report)
			}
			p := report.Slots[0].Problems[0]
			if p.Kind != c.kind || p.Sequence != c.seq || p.Line != c.line || p.Slot == "" || p.File == "" {
				t.Errorf("found %+v", p)
			}
			if c.kind == proof.ProblemEdited && len(report.Slots[0].Problems) != 1 {
				t.Errorf("one edit, and the report says:\n%s", report)
			}
		})
	}
}

func segments(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// What is verified while it grows, from one file into the next, is right at each look.
func TestVerifyWhileWriting(t *testing.T) {
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 8 << 10
	l := audittest.Open(t, o)
	stop, stopped := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for stop.Err() == nil {
			if err := l.Intent(context.Background(), audittest.Record("req")); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for n := 0; n < 30 || n < 2000 && segments(t, dir) < 2; n++ {
		audittest.Verified(t, dir)
	}
	if segments(t, dir) < 2 {
		t.Error("it has not grown into a second file")
	}
	stopped()
	<-done
}

// during does something at the moment that a first thousand records have been read.
type during struct {
	context.Context
	once *sync.Once
	do   func()
}

func (d during) Err() error {
	d.once.Do(d.do)
	return d.Context.Err()
}

// Retention takes files away beside a verification, after it has signed that it does: that is no
// tampering, whether the file was about to be read or its slot to be looked at. Without the
// statement it is.
func TestVerifyWhileRetentionRemoves(t *testing.T) {
	for _, slots := range [][]string{{"proxy"}, {"first", "proxy"}} {
		for _, said := range []bool{true, false} {
			dir := t.TempDir()
			for _, slot := range slots {
				o := audittest.Options(dir)
				o.Slot, o.SegmentSize = slot, 600<<10
				l := audittest.Open(t, o)
				for i := range 8000 {
					l.Outcome(audittest.Record("req"))
					if i%500 == 0 {
						if err := l.Flush(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				audittest.Shut(t, l)
			}
			file := func(number int) string { return filepath.Join(dir, "proxy", segment.Name(number)) }
			retain := func() {
				data, err := os.ReadFile(file(2))
				if err != nil {
					t.Fatal(err)
				}
				lines := bytes.Split(bytes.TrimRight(data, "\n \x00"), []byte("\n"))
				last := lines[len(lines)-1]
				link, err := segment.ParseLink(last)
				if err != nil {
					t.Fatal(err)
				}
				sum := fmt.Sprintf("%x", sha256.Sum256(last))
				head := checkpoint.Head{Slot: "proxy", Sequence: link.Sequence, Hash: sum, Cut: &checkpoint.Cut{Segment: 3, Sequence: link.Sequence, Hash: sum}}
				if said {
					if _, err := checkpoint.In(dir).Add(checkpoint.Checkpoint{Number: 1, Time: time.Now(), Heads: []checkpoint.Head{head}}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(os.Remove(file(1)), os.Remove(file(2))); err != nil {
					t.Fatal(err)
				}
			}
			report, err := proof.Verify(during{t.Context(), new(sync.Once), retain}, dir, proof.Trust{})
			if ok := err == nil && report.OK; ok != said {
				t.Errorf("%v, said: %v: %v\n%s", slots, said, err, report)
			}
		}
	}
}

func TestVerifyOfNothing(t *testing.T) {
	if report := audittest.Verified(t, filepath.Join(t.TempDir(), "none")); len(report.Slots) != 0 {
		t.Errorf("report: %+v", report)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	for range 2000 {
		l.Outcome(audittest.Record("req"))
	}
	audittest.Shut(t, l)
	if _, err := proof.Verify(ctx, dir, proof.Trust{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify in a context that has ended: %v", err)
	}
}
