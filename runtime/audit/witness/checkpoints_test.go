//go:build unix

package witness_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
)

// anchored makes a trail of two writers with checkpoints, and returns the last
// one as it was kept elsewhere.
func anchored(t testing.TB) (dir string, outside []byte) {
	t.Helper()
	dir = t.TempDir()
	cli := audittest.Options(dir)
	cli.Slot, cli.Shared = "cli", true
	proxy, shared := audittest.Open(t, audittest.Options(dir)), audittest.Open(t, cli)
	w := newWitness(t, witness.Options{Dir: dir, Own: proxy})
	audittest.Intents(t, proxy, 0, 3)
	audittest.Intents(t, shared, 0, 2)
	sign(t, w)
	audittest.Intents(t, proxy, 3, 6)
	audittest.Shut(t, proxy)
	audittest.Shut(t, shared)
	return dir, sign(t, w).Line
}

func segmentIn(dir, slot string) string { return filepath.Join(dir, slot, "00000001.jsonl") }

// editLast changes the last record of a slot, which no other is chained to.
func editLast(t testing.TB, dir, slot string) {
	t.Helper()
	data, err := os.ReadFile(segmentIn(dir, slot))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, []byte("api.github.com"))
	copy(data[at:], "api.gitlab.com")
	if err := os.WriteFile(segmentIn(dir, slot), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// cutTail takes n records off the end of a file of lines.
func cutTail(t testing.TB, path string, n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:len(lines)-1-n], nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What the chain alone does not show, a checkpoint does: it names the writer and
// the first record that is not what it was.
func TestCheckpointsShowWhatChainsCannot(t *testing.T) {
	for _, c := range []struct {
		name    string
		tamper  func(t *testing.T, dir string)
		outside bool // only the checkpoint that was kept elsewhere shows it
		kind    proof.ProblemKind
		slot    string
		seq     uint64
	}{
		{"last record edited", func(t *testing.T, dir string) { editLast(t, dir, "proxy") }, false, proof.ProblemEdited, "proxy", 6},
		{"last record of the other edited", func(t *testing.T, dir string) { editLast(t, dir, "cli") }, false, proof.ProblemEdited, "cli", 2},
		{"tail cut off", func(t *testing.T, dir string) { cutTail(t, segmentIn(dir, "proxy"), 2) }, false, proof.ProblemCut, "proxy", 5},
		{"all records cut off", func(t *testing.T, dir string) { cutTail(t, segmentIn(dir, "proxy"), 6) }, false, proof.ProblemCut, "proxy", 1},
		{"a writer removed", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "cli")); err != nil {
				t.Fatal(err)
			}
		}, false, proof.ProblemWriter, "cli", 1},
		{"tail and checkpoint cut off", func(t *testing.T, dir string) {
			cutTail(t, segmentIn(dir, "proxy"), 3)
			cutTail(t, filepath.Join(dir, "checkpoints.jsonl"), 1)
		}, true, proof.ProblemCut, "proxy", 4},
		{"tail cut off, all checkpoints removed", func(t *testing.T, dir string) {
			cutTail(t, segmentIn(dir, "proxy"), 1)
			if err := os.Remove(filepath.Join(dir, "checkpoints.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, true, proof.ProblemCut, "proxy", 6},
		{"a checkpoint edited", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "checkpoints.jsonl")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(data, []byte(`"seq":6`), []byte(`"seq":5`), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false, proof.ProblemClaim, "", 0},
		{"all signed again with another key", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "checkpoints.jsonl")); err != nil {
				t.Fatal(err)
			}
			cutTail(t, segmentIn(dir, "proxy"), 1)
			sign(t, newWitness(t, witness.Options{Dir: dir, Key: func() (ed25519.PrivateKey, error) {
				_, key, err := ed25519.GenerateKey(nil)
				return key, err
			}}))
		}, false, proof.ProblemClaim, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, line := anchored(t)
			trust := proof.Trust{Key: public(t)}
			if report, err := proof.Verify(t.Context(), dir, trust); err != nil || !report.OK || report.Anchor != proof.AnchoredHere || !report.Proven {
				t.Fatalf("before: %v\n%s", err, report)
			}
			c.tamper(t, dir)
			report, err := proof.Verify(t.Context(), dir, trust)
			if err != nil {
				t.Fatal(err)
			}
			if c.outside != report.OK {
				t.Errorf("without the anchor:\n%s", report)
			}
			if c.outside {
				trust.Anchors = []proof.Outside{{Name: "kept", Data: append([]byte("{\"other\":1}\n"), append(line, '\n')...)}}
				if report, err = proof.Verify(t.Context(), dir, trust); err != nil {
					t.Fatal(err)
				}
			}
			first, bad := report.First()
			if !bad || first.Kind != c.kind || first.Slot != c.slot || first.Sequence != c.seq {
				t.Errorf("found %+v, want %s of record %d of %q\n%s", first, c.kind, c.seq, c.slot, report)
			}
			if text := report.String(); strings.Contains(text, "\nok") || !strings.Contains(text, string(first.Kind)+": ") || !strings.Contains(text, first.Msg) {
				t.Errorf("said to be well, or not what is wrong:\n%s", text)
			}
		})
	}
}

// An old checkpoint outside vouches for what it names: both what follows and what the home says of
// that could have been cut back together.
func TestAnAnchorOutsideVouchesAsFarAsItGoes(t *testing.T) {
	dir, _ := anchored(t)
	book, err := os.ReadFile(filepath.Join(dir, "checkpoints.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(book, []byte("\n"))
	report, err := proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "kept", Data: first}}})
	if err != nil || !report.OK || report.OutsideCheckpoint != 1 || report.Checkpoint != 2 {
		t.Fatalf("%v\n%s", err, report)
	}
	for _, s := range report.Slots {
		if behind := s.Outside < s.Anchored; s.Outside == 0 || behind != (s.Slot == "proxy") {
			t.Errorf("%s is anchored to %d, outside to %d", s.Slot, s.Anchored, s.Outside)
		}
	}
	if text := report.String(); strings.Count(text, "(outside the home to ") != 1 || !strings.Contains(text, "ok, anchored outside the home by checkpoint 1 of ") {
		t.Errorf("said:\n%s", text)
	}
}

func TestAnAnchorOutsideVouchesForTheWhole(t *testing.T) {
	dir, line := anchored(t)
	report, err := proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "kept", Data: line}}})
	if err != nil || !report.OK || report.Anchor != proof.AnchoredOutside || report.Proven {
		t.Errorf("%v\n%s", err, report)
	}
	if report.Checkpoint != 2 || report.Key == "" || report.At.IsZero() || !strings.HasSuffix(report.String(), "ok, anchored outside the home\n") {
		t.Errorf("checkpoint %d of %s by %.8s\n%s", report.Checkpoint, report.At, report.Key, report)
	}
	if report, err := proof.Verify(t.Context(), dir, proof.Trust{}); err != nil || !strings.Contains(report.String(), "ok, anchored in the home: who can write there could cut both") {
		t.Errorf("%v\n%s", err, report)
	}
	for _, s := range report.Slots {
		if s.Anchored != s.Last {
			t.Errorf("%s is anchored to %d of %d", s.Slot, s.Anchored, s.Last)
		}
	}
	report, err = proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "empty"}}})
	if err != nil || report.OK {
		t.Errorf("an anchor without a checkpoint: %v\n%s", err, report)
	}
	report, err = proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "gone", Missing: true}}})
	if first, bad := report.First(); err != nil || !bad || first.Kind != proof.ProblemAnchor || first.Msg != "gone is missing" {
		t.Errorf("an anchor that is missing: %v\n%s", err, report)
	}
	if report, err = proof.Verify(t.Context(), t.TempDir(), proof.Trust{Anchors: []proof.Outside{{Name: "gone", Missing: true}}}); err != nil || !report.OK {
		t.Errorf("one that nothing was sent to yet: %v\n%s", err, report)
	}
	older, err := os.ReadFile(filepath.Join(dir, "checkpoints.jsonl"))
	if err == nil {
		err = os.Remove(filepath.Join(dir, "checkpoints.jsonl"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if report, err := proof.Verify(t.Context(), dir, proof.Trust{}); err != nil || !report.OK || !strings.Contains(report.String(), "ok, not anchored: a tail that was cut off would not show") {
		t.Errorf("without any: %v\n%s", err, report)
	}
	cutTail(t, segmentIn(dir, "proxy"), 1)
	first, _, _ := bytes.Cut(older, []byte("\n"))
	report, err = proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "newer", Data: line}, {Name: "older", Data: first}}})
	if p, bad := report.First(); err != nil || !bad || !strings.HasPrefix(p.Msg, "record(s) 6 to 6 are missing from the end; checkpoint 2 in newer") || report.Checkpoint != 2 {
		t.Errorf("an older anchor beside the newer: %v, %+v\n%s", err, p, report)
	}
}

// A file of another home's checkpoints is most likely the wrong path. It vouches for nothing, and
// does not say that the trail was changed; nor does it pass, as it is what a home that somebody
// has replaced leaves of the one before. With a checkpoint of this home in it it says more.
func TestCheckpointsOfAnotherHome(t *testing.T) {
	dir, own := anchored(t)
	proxy := audittest.Options(t.TempDir())
	other := audittest.Open(t, proxy)
	audittest.Intents(t, other, 0, 3)
	foreign := sign(t, newWitness(t, witness.Options{Dir: proxy.Dir, Own: other, Key: func() (ed25519.PrivateKey, error) {
		_, key, err := ed25519.GenerateKey(nil)
		return key, err
	}})).Line
	audittest.Shut(t, other)
	for _, c := range []struct {
		name  string
		lines [][]byte
		want  proof.ProblemKind
		more  int
	}{
		{"alone", [][]byte{foreign, foreign}, proof.ProblemForeign, 0},
		{"beside one of this home", [][]byte{own, foreign}, proof.ProblemClaim, 0},
		{"beside one that was edited", [][]byte{foreign, bytes.Replace(own, []byte(`"seq":6`), []byte(`"seq":5`), 1)}, proof.ProblemClaim, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := append(bytes.Join(c.lines, []byte("\n")), '\n')
			report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t), Anchors: []proof.Outside{{Name: "other", Data: data}}})
			if err != nil {
				t.Fatal(err)
			}
			first, bad := report.First()
			if report.OK || !bad || first.Kind != c.want || len(report.Problems) != 1+c.more {
				t.Errorf("%+v\n%s", first, report)
			}
			if changed := strings.Contains(report.String(), "was changed"); changed == first.Anchor() {
				t.Errorf("changed: %v\n%s", changed, report)
			}
		})
	}
}
