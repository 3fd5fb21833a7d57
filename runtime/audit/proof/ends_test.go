package proof_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
)

// The ends alone are looked at, and what is behind the newest checkpoint is no fault.
func TestTheEndsAreHeldAgainstTheNewestCheckpoint(t *testing.T) {
	file := func(dir string) string { return filepath.Join(dir, "proxy", "00000001.jsonl") }
	for _, c := range []struct {
		name   string
		tamper func(dir string, lines []string) error
		want   string // kind and message; "": nothing
	}{
		{"whole", func(string, []string) error { return nil }, ""},
		{"a torn line behind", func(dir string, l []string) error {
			return os.WriteFile(file(dir), []byte(strings.Join(l, "\n")+"\n"+`{"seq":`), 0o600)
		}, ""},
		{"a new file without a record", func(dir string, _ []string) error {
			return os.WriteFile(filepath.Join(dir, "proxy", "00000002.jsonl"), nil, 0o600)
		}, ""},
		{"behind the checkpoint cut", func(dir string, l []string) error {
			return os.WriteFile(file(dir), []byte(strings.Join(l[:4], "\n")+"\n"), 0o600)
		}, ""},
		{"the end cut", func(dir string, l []string) error {
			return os.WriteFile(file(dir), []byte(strings.Join(l[:2], "\n")+"\n"), 0o600)
		}, "cut: record(s) 3 to 4 are missing from the end; checkpoint 1 in checkpoints.jsonl names record 4"},
		{"all records cut", func(dir string, _ []string) error { return os.Truncate(file(dir), 0) },
			"cut: record(s) 1 to 4 are missing from the end; checkpoint 1 in checkpoints.jsonl names record 4"},
		{"all files removed", func(dir string, _ []string) error { return os.Remove(file(dir)) },
			"cut: record(s) 1 to 4 are missing from the end; checkpoint 1 in checkpoints.jsonl names record 4"},
		{"the writer removed", func(dir string, _ []string) error { return os.RemoveAll(filepath.Join(dir, "proxy")) },
			"missing_writer: the whole ledger of proxy is missing; checkpoint 1 in checkpoints.jsonl names its record 4"},
		{"the end edited", func(dir string, l []string) error {
			l[3] = strings.Replace(l[3], "api.github.com", "api.gitlab.com", 1)
			return os.WriteFile(file(dir), []byte(strings.Join(l[:4], "\n")+"\n"), 0o600)
		}, "edited: record 4 is not the one that checkpoint 1 in checkpoints.jsonl names"},
		{"no record at the end", func(dir string, l []string) error {
			return os.WriteFile(file(dir), []byte(strings.Join(l, "\n")+"\nwords\n"), 0o600)
		}, "malformed: the last line of 00000001.jsonl is not a record of this ledger"},
		{"no checkpoint", func(dir string, _ []string) error { return os.Remove(filepath.Join(dir, "checkpoints.jsonl")) }, ""},
		{"a checkpoint edited", func(dir string, _ []string) error {
			path := filepath.Join(dir, "checkpoints.jsonl")
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Replace(data, []byte(`"seq":4`), []byte(`"seq":3`), 1), 0o600)
		}, "checkpoint: the signature of the checkpoint does not fit"},
	} {
		dir := t.TempDir()
		l := audittest.Open(t, audittest.Options(dir))
		write := func(n int) {
			for i := range n {
				if err := l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_", i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(4)
		w, err := witness.New(witness.Options{Dir: dir, Own: l, Clock: time.Now, Key: func() (ed25519.PrivateKey, error) {
			return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil
		}})
		if err == nil {
			_, err = w.Sign(t.Context(), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		write(2)
		audittest.Shut(t, l)
		if err := c.tamper(dir, audittest.Lines(t, dir)); err != nil {
			t.Fatal(err)
		}
		problems, err := proof.Ends(dir)
		said := ""
		if len(problems) > 0 {
			said = string(problems[0].Kind) + ": " + problems[0].Msg
		}
		if err != nil || said != c.want || len(problems) > 1 {
			t.Errorf("%s: %q, want %q; %+v, %v", c.name, said, c.want, problems, err)
		}
	}
	if problems, err := proof.Ends(filepath.Join(t.TempDir(), "none")); err != nil || len(problems) > 0 {
		t.Errorf("of nothing: %+v, %v", problems, err)
	}
}
