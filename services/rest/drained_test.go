package rest

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/services/rest/gulp"
)

// What the count of records says must be what TLS itself says: a wire that is
// called clean has no byte of an answer left in it, whenever the other side
// began to send and however it cut its records. And the count must decide most
// times, else it is of no use.
func TestCleanWireHoldsNothing(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			counted := 0
			for seed := range uint64(24) {
				counted += cleanRounds(t, version, seed)
			}
			if counted < 20 {
				t.Errorf("the count decided %d times", counted)
			}
		})
	}
}

// cleanRounds sends and reads pieces of random sizes, and reports how often the
// count alone called the wire clean.
func cleanRounds(t *testing.T, version uint16, seed uint64) (counted int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(version)))
	w, far := wirePair(t, version, random.IntN(3)*40)
	for over := false; !over && counted < 12; {
		var sent int
		for range random.IntN(4) {
			n := 1 + random.IntN(3000)
			if _, err := far.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			sent += n
		}
		if over = random.IntN(12) == 0; over { // a farewell without a word about it in the answer
			if err := far.(*tls.Conn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(random.IntN(2)) * time.Millisecond) // some arrive in one piece, and some do not
		_ = w.conn.SetReadDeadline(time.Time{})
		for left := random.IntN(sent + 1); left > 0; {
			n, err := w.br.Read(make([]byte, 1+random.IntN(left)))
			if err != nil {
				t.Fatal(err)
			}
			left -= n
		}
		if random.IntN(3) == 0 {
			_ = w.conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			_, _ = io.Copy(io.Discard, w.br)
		}
		if w.br.Buffered() > 0 {
			continue
		}
		byCount := w.gulp.Drained(w.got)
		if clean := w.clean(); clean && !w.silent(time.Unix(1, 0)) || byCount && !clean {
			t.Fatalf("seed %d: called clean (by count: %v) with bytes left", seed, byCount)
		} else if !clean {
			return counted // such a wire is cut
		}
		if byCount {
			counted++
		}
		_ = w.conn.SetReadDeadline(time.Time{})
	}
	return counted
}

// A wire whose socket the kernel cannot be asked about is not still once a part of a record has
// come: the rest would be the answer to the next request.
func TestAPartOfARecordIsNotNothing(t *testing.T) {
	w, far := wirePair(t, tls.VersionTLS13, 0)
	w.raw = nil
	if _, err := far.(*tls.Conn).NetConn().Write([]byte{23, 3, 3, 0, 100, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	still := true
	for !w.gulp.Midway() { // a look may end before anything is read
		still = w.still()
	}
	if still {
		t.Error("it is called still")
	}
}

// wirePair is a wire over TLS and its other end, which has sent early bytes
// before anybody asked.
func wirePair(t *testing.T, version uint16, early int) (*wire, net.Conn) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	far := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(far)
			return
		}
		secured := tls.Server(conn, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: version, MaxVersion: version})
		if _, err := secured.Write(make([]byte, early)); err != nil {
			close(far)
			return
		}
		far <- secured
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	secured := tls.Client(&gulp.Conn{Conn: conn}, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // both ends are here
	if err := secured.Handshake(); err != nil {
		t.Fatal(err)
	}
	other, ok := <-far
	if !ok {
		t.Fatal(io.ErrUnexpectedEOF)
	}
	t.Cleanup(func() { _, _ = secured.Close(), other.Close() })
	return (&lines{o: &Options{}}).newWire(&link{Conn: secured}, spot{scheme: "https"}), other
}
