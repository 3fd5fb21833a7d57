package notifytest

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
)

// Mail is one that was taken.
type Mail struct {
	User, Password string // as AUTH PLAIN said them
	From           string
	To             []string
	Data           string // with its dots undone
	TLS            bool
}

// SMTP is a mail server (RFC 5321).
type SMTP struct {
	Authority string
	Trust     *tls.Config
	PEM       []byte

	implicit, starttls bool
	config             *tls.Config
	refuse             string // the command that is refused, with this reply
	mu                 sync.Mutex
	mails              []Mail
	clear              []string // what came before TLS
	wg                 sync.WaitGroup
}

// NewSMTP starts one that ends with the test: with TLS from the first byte, or
// with STARTTLS when offered. A command that refuse begins with is answered by
// the rest of it, "RCPT 550 no"; "RCPT TO:<a@b.test> 550 no; RCPT TO:<c@b.test> 450 no" is of
// these recipients alone.
func NewSMTP(t testing.TB, implicit, starttls bool, refuse string) *SMTP {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := certificate(t)
	s := &SMTP{
		Authority: ln.Addr().String(), implicit: implicit, starttls: starttls, refuse: refuse,
		config: &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12},
	}
	s.Trust, s.PEM = trusting(c)
	s.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); s.wg.Wait() })
	return s
}

// Mails returns what was taken so far.
func (s *SMTP) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail{}, s.mails...)
}

// Clear returns the commands that came in clear.
func (s *SMTP) Clear() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.clear, "\n")
}

// Dial leads every authority to the server.
func (s *SMTP) Dial(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.Authority)
}

// session is one connection.
type session struct {
	s    *SMTP
	conn net.Conn
	text *textproto.Conn
	mail Mail
}

func (s *SMTP) serve(conn net.Conn) {
	defer conn.Close()
	c := &session{s: s, conn: conn}
	if s.implicit {
		c.secure()
	}
	c.text = textproto.NewConn(c.conn)
	c.say("220 mail.test ESMTP")
	for {
		line, err := c.text.ReadLine()
		if err != nil || !c.command(line) {
			return
		}
	}
}

func (c *session) secure() {
	c.conn = tls.Server(c.conn, c.s.config)
	c.mail.TLS = true
}

func (c *session) say(line string) { _ = c.text.PrintfLine("%s", line) }

// command answers one; false ends the session.
func (c *session) command(line string) bool {
	if !c.mail.TLS {
		c.s.mu.Lock()
		c.s.clear = append(c.s.clear, line)
		c.s.mu.Unlock()
	}
	verb, rest, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	if reply, refused := c.s.refused(verb, rest); refused {
		c.say(reply)
		return true
	}
	switch verb {
	case "EHLO", "HELO":
		c.hello()
	case "STARTTLS":
		c.say("220 go ahead")
		c.secure()
		c.text = textproto.NewConn(c.conn)
	case "AUTH":
		c.auth(rest)
	case "MAIL":
		c.mail.From = strings.TrimSuffix(strings.TrimPrefix(strings.Fields(rest)[0], "FROM:<"), ">")
		c.say("250 ok")
	case "RCPT":
		c.mail.To = append(c.mail.To, strings.TrimSuffix(strings.TrimPrefix(rest, "TO:<"), ">"))
		c.say("250 ok")
	case "DATA":
		c.say("354 go on")
		data, err := c.text.ReadDotBytes()
		if err != nil {
			return false
		}
		c.mail.Data = string(data)
		c.s.mu.Lock()
		c.s.mails = append(c.s.mails, c.mail)
		c.s.mu.Unlock()
		c.say("250 taken")
	case "QUIT":
		c.say("221 bye")
		return false
	default:
		c.say("502 no such command")
	}
	return true
}

// refused is the reply to a command that is to be refused.
func (s *SMTP) refused(verb, rest string) (reply string, refused bool) {
	for one := range strings.SplitSeq(s.refuse, "; ") {
		command, reply, _ := strings.Cut(one, " ")
		if strings.HasPrefix(reply, "TO:") {
			var to string
			if to, reply, _ = strings.Cut(reply, " "); to != rest {
				continue
			}
		}
		if command == verb && reply != "" {
			return reply, true
		}
	}
	return "", false
}

func (c *session) hello() {
	c.say("250-mail.test")
	if c.s.starttls && !c.mail.TLS {
		c.say("250-STARTTLS")
	}
	c.say("250 AUTH PLAIN")
}

// auth takes AUTH PLAIN with an initial response (RFC 4616).
func (c *session) auth(rest string) {
	mechanism, blob, _ := strings.Cut(rest, " ")
	plain, err := base64.StdEncoding.DecodeString(blob)
	parts := strings.Split(string(plain), "\x00")
	if mechanism != "PLAIN" || err != nil || len(parts) != 3 {
		c.say("501 not understood")
		return
	}
	c.mail.User, c.mail.Password = parts[1], parts[2]
	c.say("235 welcome")
}
