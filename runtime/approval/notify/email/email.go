// Package email tells people by mail, through an SMTP server (RFC 5321) and over
// TLS only: from the first byte, or after STARTTLS (RFC 3207), which must be
// offered.
//
// It refuses to send anything, the password first of all, in clear. Start
// reading at [Sender.Send].
package email

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime/approval/notify"
)

// Options are what a [Sender] needs; User and Password may be missing together.
type Options struct {
	Dial     notify.Dial
	Trust    *tls.Config
	Clock    func() time.Time
	Server   string // host:port
	Implicit bool   // TLS from the first byte (port 465), not STARTTLS
	User     string
	Password notify.Secret
	From     string
	To       []string
}

// Sender sends by one server.
type Sender struct {
	o    Options
	host string
	from *mail.Address
	to   []*mail.Address
}

var _ notify.Sender = (*Sender)(nil)

// New checks the options.
func New(o Options) (*Sender, error) {
	if o.Dial == nil || o.Trust == nil || o.Clock == nil || len(o.To) == 0 || (o.User == "") != (o.Password == nil) {
		return nil, errors.New("email: Options is not complete")
	}
	host, _, err := net.SplitHostPort(o.Server)
	if err != nil {
		return nil, fmt.Errorf("email: %q is not host:port", o.Server)
	}
	s := &Sender{o: o, host: host}
	if s.from, err = mail.ParseAddress(o.From); err != nil {
		return nil, fmt.Errorf("email: from %q is not an address", o.From)
	}
	for _, to := range o.To {
		address, err := mail.ParseAddress(to)
		if err != nil {
			return nil, fmt.Errorf("email: to %q is not an address", to)
		}
		s.to = append(s.to, address)
	}
	return s, nil
}

// Name implements [notify.Sender].
func (s *Sender) Name() string { return "email " + s.host }

// Send implements [notify.Sender].
func (s *Sender) Send(ctx context.Context, m notify.Message) error {
	data, err := s.compose(m)
	if err != nil {
		return &notify.Refused{Err: err}
	}
	conn, err := s.o.Dial(ctx, s.o.Server)
	if err != nil {
		return fmt.Errorf("%s: %w", s.host, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends every read and write
	defer stop()
	return s.named(s.talk(ctx, conn, data))
}

// talk is one session.
func (s *Sender) talk(ctx context.Context, conn net.Conn, data []byte) error {
	trust := s.o.Trust.Clone()
	trust.ServerName = s.host
	if s.o.Implicit {
		inside := tls.Client(conn, trust)
		if err := inside.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = inside
	}
	client, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return err
	}
	defer client.Close()
	if !s.o.Implicit {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return &notify.Refused{Err: errors.New("the server does not offer STARTTLS, and nothing is sent in clear")}
		}
		if err := client.StartTLS(trust); err != nil {
			return err
		}
	}
	if s.o.User != "" {
		password, err := s.o.Password(ctx, s.o.Server)
		if err != nil {
			return err
		}
		if err := client.Auth(smtp.PlainAuth("", s.o.User, password.Reveal(), s.host)); err != nil {
			return err
		}
	}
	return s.mail(client, data)
}

func (s *Sender) mail(client *smtp.Client, data []byte) error {
	if err := client.Mail(s.from.Address); err != nil {
		return err
	}
	missed, err := s.recipients(client)
	if err != nil {
		return err
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := body.Write(data); err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	_ = client.Quit() // the message is taken already
	return missed
}

// recipients names those whom the message is for. One that the server does not take keeps
// it from nobody else: missed says who, nil when all were taken. With none left it is err.
func (s *Sender) recipients(client *smtp.Client) (missed, err error) {
	var names []string
	final := true
	for _, to := range s.to {
		err := client.Rcpt(to.Address)
		if err == nil {
			continue
		}
		var reply *textproto.Error
		if !errors.As(err, &reply) || reply.Code == closing {
			return nil, err
		}
		names = append(names, fmt.Sprintf("%s (%d)", to.Address, reply.Code))
		final = final && reply.Code >= 500
	}
	if names == nil {
		return nil, nil
	}
	untaken := errors.New("it was not taken for " + few(names))
	switch {
	case len(names) < len(s.to):
		return &notify.Partly{Err: untaken}, nil
	case final:
		return nil, &notify.Refused{Err: untaken}
	}
	return nil, untaken
}

// closing is the reply of a server that ends the connection (RFC 5321 section 3.8).
const closing = 421

// few names the first of a list.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// named says whose error it is; a reply of the 5xx kind is final (RFC 5321
// section 4.2.1). What the server said is left out: some quote what they got.
func (s *Sender) named(err error) error {
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		if err != nil {
			err = fmt.Errorf("%s: %w", s.host, err)
		}
		return err
	}
	err = fmt.Errorf("%s replied %d", s.host, reply.Code)
	if reply.Code >= 500 {
		return &notify.Refused{Err: err}
	}
	return err
}

// compose writes the message (RFC 5322).
func (s *Sender) compose(m notify.Message) ([]byte, error) {
	var to []string
	for _, address := range s.to {
		to = append(to, address.String()+",")
	}
	to[len(to)-1] = strings.TrimSuffix(to[len(to)-1], ",")
	subject := []string{mime.QEncoding.Encode("utf-8", m.Subject)}
	if strings.HasPrefix(subject[0], "=?") { // encoded words, which have no blanks
		subject = strings.Fields(subject[0])
	}
	_, domain, _ := strings.Cut(s.from.Address, "@")
	var b bytes.Buffer
	for _, field := range [][]string{
		{"From:", s.from.String()}, append([]string{"To:"}, to...), append([]string{"Subject:"}, subject...),
		{"Date:", s.o.Clock().Format(time.RFC1123Z)}, {"Message-ID:", "<" + m.ID + "@" + domain + ">"},
		{"Auto-Submitted:", "auto-generated"}, {"MIME-Version:", "1.0"},
		{"Content-Type:", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding:", "quoted-printable"},
	} {
		if strings.ContainsAny(strings.Join(field, ""), "\r\n") {
			return nil, errors.New("a field of the mail has a line end in it")
		}
		b.WriteString(field[0] + " " + strings.Join(field[1:], folded) + "\r\n")
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(strings.ReplaceAll(m.Text(), "\n", "\r\n") + "\r\n")); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}

// folded goes on with a field in another line, of which none may have more than 998 octets
// (RFC 5322 sections 2.1.1 and 2.2.3).
const folded = "\r\n "
