//go:build unix

package witness_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KIMBAP_WITNESS_DIR"); dir != "" {
		fmt.Fprintln(os.Stderr, signing(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(runtimetest.Settled{M: m})
}

// signer is this test binary, to be started again and killed.
func signer(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "KIMBAP_WITNESS_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// signing makes records, rotates segments and signs as fast as it can until it is
// killed, and prints a byte for each checkpoint.
func signing(dir string) error {
	o := audittest.Options(dir)
	o.SegmentSize = 4 << 10
	l, err := audit.New(o)
	if err != nil {
		return err
	}
	if err := l.Open(context.Background()); err != nil {
		return err
	}
	go func() {
		for i := 0; ; i++ {
			r := audittest.Record(fmt.Sprintf("req_%d_%d", os.Getpid(), i))
			if l.Intent(context.Background(), r) != nil {
				os.Exit(3)
			}
			l.Outcome(r)
		}
	}()
	w, err := witness.New(witness.Options{Dir: dir, Own: l, Key: witnessKey, Clock: time.Now})
	for err == nil {
		var signed checkpoint.Signed
		if signed, err = w.Sign(context.Background(), true); err == nil && signed.Number > 0 {
			_, err = os.Stdout.WriteString(".")
		}
	}
	return err
}
