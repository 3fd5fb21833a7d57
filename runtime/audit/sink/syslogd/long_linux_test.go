package syslogd_test

import (
	"bytes"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/syslogd"
)

// A line that is too long for the system's datagrams is refused, and holds up none of the others.
func TestALineTooLongForTheSocketIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	daemon, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Close() })
	s, err := syslogd.New(syslogd.Options{Network: "unixgram", Address: path, Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	long := append(bytes.Repeat([]byte("x"), 16<<20), '\n')
	err = s.Write(t.Context(), "run", [][]byte{[]byte("first\n"), long, []byte("second\n")})
	if r := (*outlet.Refused)(nil); !errors.As(err, &r) || r.Lines != 1 {
		t.Errorf("%v", err)
	}
	buf := make([]byte, 1024)
	for _, want := range []string{"first", "second"} {
		n, err := daemon.Read(buf)
		if err != nil || !bytes.HasSuffix(buf[:n], []byte(" "+want)) {
			t.Errorf("%q, %v", buf[:n], err)
		}
	}
}
