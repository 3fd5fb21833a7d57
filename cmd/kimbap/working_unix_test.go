//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// What reads all of a long trail says on a terminal that it is at it. The file that it reads
// here has no end until it has said so.
func TestWhatReadsTheWholeTrailSaysSo(t *testing.T) {
	t.Parallel()
	for said, command := range map[string]func(*cli) *cobra.Command{
		"judging recorded requests": newPolicyReplayCommand,
		"reading recorded requests": newPolicySuggestCommand,
		"checking the trail":        newAuditVerifyCommand,
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			home := filepath.Join(t.TempDir(), "home")
			slot := filepath.Join(home, "audit", "proxy")
			file := filepath.Join(slot, "00000001.jsonl")
			if err := errors.Join(os.MkdirAll(slot, 0o700), unix.Mkfifo(file, 0o600), os.WriteFile(filepath.Join(home, "policy.yaml"), []byte("version: 1\nrules: []\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			emptyStore(t, home)
			from, to := io.Pipe()
			c := &cli{home: home, uid: os.Getuid(), out: io.Discard, err: to, errTTY: true, output: "text"}
			cmd := command(c)
			cmd.SetArgs([]string{}) // nil: those of the test
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			ended := make(chan error, 1)
			go func() {
				err := cmd.ExecuteContext(t.Context())
				_ = to.Close()
				ended <- err
			}()
			defer time.AfterFunc(20*time.Second, func() { _ = to.Close() }).Stop() // if it says nothing
			first := make([]byte, 256)
			n, err := from.Read(first)
			if got := string(first[:n]); err != nil || !strings.HasPrefix(got, "\r\033[K"+said+", ") {
				t.Errorf("said %q, %v", got, err)
			}
			go func() { _, _ = io.Copy(io.Discard, from) }()
			if end, err := os.OpenFile(file, os.O_RDWR, 0); err == nil { // which waits for no reader
				_ = os.Remove(file)
				_ = end.Close()
			}
			select {
			case <-ended: // as it may: no trail has such a file
			case <-time.After(time.Minute):
				t.Error("it goes on")
			}
		})
	}
}
