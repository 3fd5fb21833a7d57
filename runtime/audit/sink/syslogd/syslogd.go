// Package syslogd sends the lines of the audit ledger to a syslog daemon, as
// messages of RFC 5424: over a local socket, over UDP (RFC 5426), or over TCP with
// octet counting (RFC 6587 section 3.4.1).
//
// The protocol has no acknowledgement. Over TCP and a local socket a line counts
// as sent when the system has taken it, and a daemon that has hung up is noticed
// before the next; over UDP nothing is known, so that such a sink cannot be a
// required one.
//
// Start reading at [Sink].
package syslogd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// Options are what a [Sink] is made of. Network and Address are required.
type Options struct {
	Network  string // tcp, udp, unix (a stream) or unixgram
	Address  string // host:port or a path
	Hostname string // of this machine; "-" when empty
	Process  int    // its id
	Required bool
}

const (
	dialTimeout = 5 * time.Second
	maxHostname = 255
	maxDatagram = 65507 // bytes of one over UDP: RFC 5426 section 3.1
)

// The parts of PRI (RFC 5424 section 6.2.1): the facility is "log audit".
const (
	facilityAudit = 13
	warning       = 4
	notice        = 5
)

// Sink sends lines. It is safe for concurrent use.
type Sink struct {
	o Options

	mu     sync.Mutex
	conn   net.Conn
	gone   chan struct{} // closed when the other side of a stream has hung up
	closed bool
}

var _ outlet.Sink = (*Sink)(nil)

// New checks the options; the first write connects.
func New(o Options) (*Sink, error) {
	switch {
	case o.Address == "":
		return nil, errors.New("audit sink: syslogd.Options.Address is missing")
	case o.Network != "tcp" && o.Network != "udp" && o.Network != "unix" && o.Network != "unixgram":
		return nil, fmt.Errorf("audit sink: syslogd.Options.Network %q: want tcp, udp, unix or unixgram", o.Network)
	case o.Required && o.Network == "udp":
		return nil, errors.New("audit sink: nothing tells whether a datagram has arrived, so that syslog over UDP cannot be required")
	}
	o.Hostname = printable(o.Hostname, maxHostname)
	return &Sink{o: o}, nil
}

// Name implements [outlet.Sink].
func (s *Sink) Name() string { return "syslog:" + s.o.Network + ":" + s.o.Address }

// Required implements [outlet.Sink].
func (s *Sink) Required() bool { return s.o.Required }

// stream reports whether messages need framing.
func (s *Sink) stream() bool { return s.o.Network == "tcp" || s.o.Network == "unix" }

// Write implements [outlet.Sink].
func (s *Sink) Write(ctx context.Context, slot string, lines [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx); err != nil {
		return err
	}
	conn := s.conn // s.conn may be another, or none, when the function below runs
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
	err := s.send(slot, lines)
	refused := (*outlet.Refused)(nil)
	if !stop() || err != nil && !errors.As(err, &refused) {
		s.drop() // it is broken, or no write to it can succeed any more
	}
	return err
}

// send writes the messages: all in one write to a stream, else one by one.
func (s *Sink) send(slot string, lines [][]byte) error {
	if s.stream() {
		var framed []byte
		for _, line := range lines {
			message := s.message(slot, line)
			framed = strconv.AppendInt(framed, int64(len(message)), 10)
			framed = append(append(framed, ' '), message...)
		}
		_, err := s.conn.Write(framed)
		return err
	}
	long := 0
	for _, line := range lines {
		message := s.message(slot, line)
		if s.o.Network == "udp" && len(message) > maxDatagram {
			long++
			continue
		}
		if _, err := s.conn.Write(message); errors.Is(err, syscall.EMSGSIZE) {
			long++ // it would come again and again, with all behind it
		} else if err != nil {
			return err
		}
	}
	if long > 0 {
		return &outlet.Refused{Lines: long, Err: errors.New("a line is too long for a datagram")}
	}
	return nil
}

// connect makes sure that there is a connection whose other side is there.
func (s *Sink) connect(ctx context.Context) error {
	if s.closed {
		return net.ErrClosed
	}
	if s.conn != nil {
		select {
		case <-s.gone:
			s.drop()
		default:
			return nil
		}
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, s.o.Network, s.o.Address)
	if err != nil {
		return err
	}
	s.conn, s.gone = conn, make(chan struct{})
	if !s.stream() {
		return nil
	}
	go func(gone chan<- struct{}) { // a daemon sends nothing: what comes is the end
		_, _ = io.Copy(io.Discard, conn)
		close(gone)
	}(s.gone)
	return nil
}

func (s *Sink) drop() {
	_ = s.conn.Close()
	if s.stream() {
		<-s.gone
	}
	s.conn = nil
}

// message is one line as RFC 5424 section 6 has it. PROCID is the process, MSGID
// the kind of record; there is no structured data, the line says all.
func (s *Sink) message(slot string, line []byte) []byte {
	line = bytes.TrimRight(line, "\n")
	var r struct {
		Time time.Time `json:"time"`
		Kind string    `json:"kind"`
		Code string    `json:"code"`
	}
	_ = json.Unmarshal(line, &r) // the message has the line, whatever it is
	severity := notice
	if r.Code != "" {
		severity = warning
	}
	stamp := "-"
	if !r.Time.IsZero() {
		stamp = r.Time.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	head := fmt.Sprintf("<%d>1 %s %s kimbap-%s %d %s - ", facilityAudit*8+severity, stamp, s.o.Hostname, printable(slot, 40), s.o.Process, printable(r.Kind, 32))
	return append([]byte(head), line...)
}

// printable keeps to PRINTUSASCII (RFC 5424 section 6), "-" for nothing.
func printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text[:min(len(text), limit)]
}

// Close implements [outlet.Sink]. Later writes fail.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.conn != nil {
		s.drop()
	}
	return nil
}
