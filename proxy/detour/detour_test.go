package detour_test

import (
	"io"
	"net"
	"testing"

	"github.com/kimbap-run/kimbap/proxy/detour"
)

// ledAway is a connection that is led to a proxy elsewhere, and its client's end.
func ledAway(t *testing.T, authority string) (led, client net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := detour.Away(plain, func(net.Conn) (string, bool) { return authority, true })
	t.Cleanup(func() { _ = ln.Close() })
	if client, err = net.Dial("tcp", plain.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if led, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = led.Close() })
	return led, client
}

// What a client says goes to a proxy elsewhere after its yes alone, in however many
// pieces that comes; after a no it does not go there, as a request of its own.
func TestWhatIsLedAwayWaitsForTheAnswer(t *testing.T) {
	for _, c := range []struct {
		name, authority string
		answer          []string
		heard, sent     string // by the client; to the proxy, after the CONNECT
	}{
		{"yes", "api.test:443", []string{"HTTP/1.1 200 Connection established\r\n\r\n", "welcome"}, "welcome", "hello"},
		{"yes, in pieces", "api.test:443", []string{"HTTP/1.1 200 Conn", "ection established\r\n", "\r\nwel", "come"}, "welcome", "hello"},
		{"no, over TLS", "api.test:443", []string{"HTTP/1.1 403 For", "bidden\r\n\r\n", "more"}, "\x15\x03\x03\x00\x02\x02\x31", ""},
		{"no, in clear", "api.test:80", []string{"HTTP/1.1 403 Forbidden\r\n\r\n", "more"}, "HTTP/1.1 403 Forbidden\r\n\r\nmore", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			led, client := ledAway(t, c.authority)
			if _, err := io.WriteString(client, "hello"); err != nil {
				t.Fatal(err)
			}
			opening := make([]byte, 256)
			n, err := led.Read(opening)
			if want := "CONNECT " + c.authority + " HTTP/1.1\r\nHost: " + c.authority + "\r\n\r\n"; string(opening[:n]) != want || err != nil {
				t.Fatalf("%q %v", opening[:n], err)
			}
			sent := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(led)
				sent <- string(text)
			}()
			for _, piece := range c.answer {
				if _, err := io.WriteString(led, piece); err != nil {
					t.Fatal(err)
				}
			}
			if err := led.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			heard, err := io.ReadAll(client)
			if string(heard) != c.heard || err != nil {
				t.Errorf("the client heard %q %v, want %q", heard, err, c.heard)
			}
			if err := client.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := <-sent; got != c.sent {
				t.Errorf("the proxy was sent %q, want %q", got, c.sent)
			}
		})
	}
}

// A connection that is closed before it was answered keeps nobody waiting.
func TestWhatIsLedAwayEndsUnanswered(t *testing.T) {
	led, _ := ledAway(t, "api.test:443")
	if _, err := led.Read(make([]byte, 256)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := led.Read(make([]byte, 1)); ended <- err }()
	_ = led.Close()
	if err := <-ended; err == nil {
		t.Error("it was read")
	}
}
