package netns

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// ask makes a query and reads the answer to it.
func ask(t *testing.T, n *Names, name string, kind dnsmessage.Type, change func(*dnsmessage.Message)) dnsmessage.Message {
	t.Helper()
	q := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if change != nil {
		change(&q)
	}
	data, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var got dnsmessage.Message
	if err := got.Unpack(n.Answer(data)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got.ID != q.ID || !got.Response || !got.RecursionAvailable || !got.RecursionDesired || got.Truncated {
		t.Errorf("%s: head %+v", name, got.Header)
	}
	return got
}

func TestEveryNameIsAnsweredHere(t *testing.T) {
	n := NewNames()
	for _, c := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want string
	}{
		{"Api.Acme.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.1"},
		{"api.acme.example.", dnsmessage.TypeALL, dnsmessage.RCodeSuccess, "198.18.0.1"},
		{"tunnelled-words.evil.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.2"},
		{"api.acme.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, ""},
		{"api.acme.example.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, ""},
		{"api.acme.example.", dnsmessage.TypeMX, dnsmessage.RCodeSuccess, ""},
		{"api.acme.example.", 65, dnsmessage.RCodeSuccess, ""}, // HTTPS
		{"nobody-asked-for-its-address.test.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, ""},
		{"localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"a.localhost.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, "::1"},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeSuccess, ""},
		{"bad name.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"8.8.8.8.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeSuccess, "api.acme.example."},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, ""},
		{"9.9.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"8.8.8.8.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"home.arpa.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.3"}, // RFC 8375: a domain of hosts, no reverse one
		{"git.lab.home.arpa.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.4"},
		{"in-addr.arpa.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"1.0.0.0.ip6.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
	} {
		got := ask(t, n, c.name, c.kind, nil)
		said := ""
		for _, a := range got.Answers {
			if a.Header.TTL != ttl || !strings.EqualFold(a.Header.Name.String(), c.name) {
				t.Errorf("%s: %v", c.name, a.Header)
			}
			switch body := a.Body.(type) {
			case *dnsmessage.AResource:
				said += net.IP(body.A[:]).String()
			case *dnsmessage.AAAAResource:
				said += net.IP(body.AAAA[:]).String()
			case *dnsmessage.PTRResource:
				said += body.PTR.String()
			}
		}
		if got.RCode != c.code || said != c.want {
			t.Errorf("%s %v: %v %q, want %v %q", c.name, c.kind, got.RCode, said, c.code, c.want)
		}
	}
}

func TestQueriesOutOfOrder(t *testing.T) {
	n := NewNames()
	n.most = 0
	for name, c := range map[string]struct {
		change func(*dnsmessage.Message)
		want   dnsmessage.RCode
	}{
		"full":          {func(*dnsmessage.Message) {}, dnsmessage.RCodeServerFailure},
		"update":        {func(m *dnsmessage.Message) { m.OpCode = 5 }, dnsmessage.RCodeNotImplemented},
		"chaos":         {func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }, dnsmessage.RCodeRefused},
		"no question":   {func(m *dnsmessage.Message) { m.Questions = nil }, dnsmessage.RCodeFormatError},
		"two questions": {func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }, dnsmessage.RCodeFormatError},
	} {
		if got := ask(t, n, "a.test.", dnsmessage.TypeA, c.change); got.RCode != c.want || len(got.Answers) > 0 {
			t.Errorf("%s: %v", name, got.RCode)
		}
	}
	for _, data := range [][]byte{nil, {1}, bytes.Repeat([]byte{0xff}, 12)} {
		if got := n.Answer(data); got != nil {
			t.Errorf("%x is answered %x", data, got)
		}
	}
}

// Who speaks EDNS is answered so (RFC 6891, section 6.1.1), and nobody else.
func TestStubSpeaksEDNS(t *testing.T) {
	extend := func(m *dnsmessage.Message) {
		opt := dnsmessage.Resource{Body: &dnsmessage.OPTResource{}}
		if err := opt.Header.SetEDNS0(4096, 0, true); err != nil {
			t.Fatal(err)
		}
		m.Additionals = append(m.Additionals, opt)
	}
	for _, change := range []func(*dnsmessage.Message){nil, extend} {
		got := ask(t, NewNames(), "a.test.", dnsmessage.TypeA, change)
		if len(got.Answers) != 1 || (len(got.Additionals) == 1) != (change != nil) {
			t.Errorf("extended %v: %v", change != nil, got.Additionals)
		}
	}
}

// The stub is spoken to over real sockets, by the resolver of Go.
func TestStubServes(t *testing.T) {
	n := NewNames()
	asked, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() { n.serveDatagrams(asked); done <- struct{}{} }()
	go func() { n.serveStreams(streams); done <- struct{}{} }()
	defer func() { asked.Close(); streams.Close(); <-done; <-done }()
	for network, at := range map[string]string{"udp": asked.LocalAddr().String(), "tcp": streams.Addr().String()} {
		r := net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, at)
		}}
		got, err := r.LookupHost(t.Context(), "api.acme.example.")
		if err != nil || len(got) != 1 || got[0] != "198.18.0.1" {
			t.Errorf("%s: %v %v", network, got, err)
		}
	}
	// What is no query ends the connection, and only that one.
	c, err := net.Dial("tcp", streams.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, 3), 1, 2, 3))
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("%x %v", b, err)
	}
}

// A client that keeps its connection does not outlive the room.
func TestConnectionsToTheStubEndWithIt(t *testing.T) {
	n := NewNames()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); n.serveStreams(ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(queryTime / 2)) // before the stub would end it by itself
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	query, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 512)); err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if _, err := c.Read(make([]byte, 512)); err != io.EOF {
		t.Errorf("the connection is there yet: %v", err)
	}
	<-done
}

func FuzzAnswer(f *testing.F) {
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	data, _ := q.Pack()
	f.Add(data)
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	n := NewNames()
	f.Fuzz(func(t *testing.T, query []byte) {
		answer := n.Answer(query)
		if answer == nil {
			return
		}
		var got dnsmessage.Message
		if err := got.Unpack(answer); err != nil || !got.Response || !bytes.Equal(answer[:2], query[:2]) {
			t.Errorf("%x is answered %x: %v", query, answer, err)
		}
		if len(answer) > 512+len(query) {
			t.Errorf("%d bytes are answered by %d", len(query), len(answer))
		}
	})
}

// What panics over a query answers nobody, and does not end the run.
func TestAPanicOverAQueryAnswersNobody(t *testing.T) {
	query := dnsmessage.Message{Header: dnsmessage.Header{ID: 1}, Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if got := (*Names)(nil).Answer(packed); got != nil {
		t.Errorf("answered %x", got)
	}
}

// scarce has no descriptor for its first client.
type scarce struct {
	net.Listener
	short bool
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.short {
		s.short = false
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

// Where there was no descriptor for a client, the next one is answered.
func TestNamesAreAnsweredAfterAShortage(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); NewNames().serveStreams(&scarce{ln, true}) }()
	defer func() { _ = ln.Close(); <-done }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("localhost."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	data, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
		t.Errorf("no answer: %v", err)
	}
}
