package syslogd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/syslogd"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// daemon is a syslog daemon on a real socket: messages come out of got.
type daemon struct {
	network, address string
	got              chan string
	stop             func()
}

func start(t *testing.T, network string) *daemon {
	t.Helper()
	d := &daemon{network: network, got: make(chan string, 100)}
	address := "127.0.0.1:0"
	switch {
	case strings.HasPrefix(network, "unix"):
		address = filepath.Join(t.TempDir(), "log")
	case goruntime.GOOS == "linux": // where nobody else takes the port while the daemon is gone
		address = "127.83.89.83:0"
	}
	if network == "udp" || network == "unixgram" {
		conn, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		d.address, d.stop = conn.LocalAddr().String(), func() { _ = conn.Close() }
		go func() {
			for buf := make([]byte, 70<<10); ; {
				n, _, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				d.got <- string(buf[:n])
			}
		}()
		t.Cleanup(d.stop)
		return d
	}
	d.listen(t, address)
	t.Cleanup(func() { d.stop() })
	return d
}

// listen takes one connection after the other and reads frames by their counts.
func (d *daemon) listen(t *testing.T, address string) {
	t.Helper()
	ln, err := net.Listen(d.network, address)
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan struct{})
	d.address, d.stop = ln.Addr().String(), func() { _ = ln.Close(); close(quit) }
	stop := d.stop
	once := false
	d.stop = func() {
		if !once {
			once = true
			stop()
		}
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { <-quit; _ = conn.Close() }()
			go d.read(conn)
		}
	}()
}

func (d *daemon) read(conn net.Conn) {
	for r := bufio.NewReader(conn); ; {
		count, err := r.ReadString(' ')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSuffix(count, " "))
		if err != nil {
			d.got <- "bad frame " + count
			return
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(r, message); err != nil {
			return
		}
		d.got <- string(message)
	}
}

func sink(t *testing.T, o syslogd.Options) *syslogd.Sink {
	t.Helper()
	s, err := syslogd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

const line = `{"seq":1,"prev":"","kind":"refusal","time":"2026-01-02T03:04:05.000006Z","id":"req_1","code":"forbidden","text":"é"}` + "\n"

// The form of RFC 5424 section 6: PRI, VERSION, TIMESTAMP, HOSTNAME, APP-NAME,
// PROCID, MSGID, STRUCTURED-DATA, MSG.
var form = regexp.MustCompile(`^<(\d{1,3})>1 (\S+) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) (-|\[.*\]) (.*)$`)

func TestMessagesOverEverySocket(t *testing.T) {
	for _, network := range []string{"tcp", "udp", "unix", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			d := start(t, network)
			s := sink(t, syslogd.Options{Network: network, Address: d.address, Hostname: "host one\n", Process: 7})
			event := strings.Replace(strings.Replace(line, "refusal", "event", 1), `"code":"forbidden",`, "", 1)
			if err := s.Write(t.Context(), "proxy-2", [][]byte{[]byte(line), []byte(event), []byte("no record\n")}); err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{
				"108 2026-01-02T03:04:05.000006Z hostone kimbap-proxy-2 7 refusal - " + strings.TrimSpace(line),
				"109 2026-01-02T03:04:05.000006Z hostone kimbap-proxy-2 7 event - " + strings.TrimSpace(event),
				"109 - hostone kimbap-proxy-2 7 - - no record",
			} {
				parts := form.FindStringSubmatch(<-d.got)
				if parts == nil || strings.Join(parts[1:], " ") != want {
					t.Errorf("%d: %q\nwant %s", i, parts, want)
				}
			}
		})
	}
}

// A daemon that hung up is noticed before the next lines are written, and found
// again when it is back.
func TestADaemonThatHangsUpIsFoundAgain(t *testing.T) {
	d := start(t, "tcp")
	s := sink(t, syslogd.Options{Network: "tcp", Address: d.address, Required: true})
	if err := s.Write(t.Context(), "proxy", [][]byte{[]byte(line)}); err != nil {
		t.Fatal(err)
	}
	<-d.got
	d.stop()
	<-s.Gone()
	if s.Write(t.Context(), "proxy", [][]byte{[]byte(line)}) == nil {
		t.Error("lines are taken for sent while nobody listens")
	}
	d.listen(t, d.address)
	for n := range 3 {
		id := fmt.Sprint("req_back_", n)
		if err := s.Write(t.Context(), "proxy", [][]byte{[]byte(strings.Replace(line, "req_1", id, 1))}); err != nil {
			t.Fatal(err)
		}
		if got := <-d.got; !strings.Contains(got, id) {
			t.Errorf("got %s", got)
		}
	}
}

// A daemon that does not read fails the write in time.
func TestADaemonThatDoesNotReadFailsTheWrite(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan net.Conn, 1)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			held <- conn
		}
	}()
	s := sink(t, syslogd.Options{Network: "tcp", Address: ln.Addr().String()})
	if err := s.Write(t.Context(), "proxy", [][]byte{[]byte(line)}); err != nil {
		t.Fatal(err)
	}
	conn := <-held
	long := []byte(fmt.Sprintf("{%q}\n", strings.Repeat("x", 1<<20)))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; {
		err = s.Write(ctx, "proxy", [][]byte{long})
	}
	if err := errors.Join(conn.Close(), ln.Close()); err != nil {
		t.Error(err)
	}
}

// What ends a write may run when the write has ended already, and its connection
// is gone: it takes luck, so again and again.
func TestAWriteAndItsContextEndTogether(t *testing.T) {
	conn, err := net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // nobody reads
	s := sink(t, syslogd.Options{Network: "unixgram", Address: conn.LocalAddr().String()})
	for range 500 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		for err = nil; err == nil; {
			err = s.Write(ctx, "proxy", [][]byte{[]byte(line)})
		}
		cancel()
	}
}

func TestWhatDoesNotFitIntoADatagramIsRefused(t *testing.T) {
	d := start(t, "udp")
	s := sink(t, syslogd.Options{Network: "udp", Address: d.address})
	err := s.Write(t.Context(), "proxy", [][]byte{[]byte(strings.Repeat("x", 66<<10) + "\n"), []byte(line)})
	if refused := (*outlet.Refused)(nil); !errors.As(err, &refused) || refused.Lines != 1 {
		t.Errorf("%v", err)
	}
	if got := <-d.got; !strings.Contains(got, "req_1") {
		t.Errorf("got %q", got)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]syslogd.Options{
		"Address": {Network: "tcp"}, "Network": {Network: "tls", Address: "x"}, "required": {Network: "udp", Address: "127.0.0.1:1", Required: true},
	} {
		if _, err := syslogd.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := sink(t, syslogd.Options{Network: "unix", Address: filepath.Join(t.TempDir(), "none")})
	if err := s.Write(t.Context(), "", [][]byte{[]byte(line)}); err == nil {
		t.Error("wrote to a socket that is not there")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), "", nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
}
