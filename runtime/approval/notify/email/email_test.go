package email_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/email"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/notifytest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

const password = "mail-password-7d31"

func sender(t *testing.T, s *notifytest.SMTP, implicit bool) *email.Sender {
	t.Helper()
	out, err := email.New(email.Options{
		Dial: s.Dial, Trust: s.Trust, Clock: func() time.Time { return time.Unix(1_900_000_000, 0) }, Server: "mail.test:587", Implicit: implicit,
		User: "kimbap", From: "kimbap <kimbap@example.test>", To: []string{"ann@example.test", "Bob <bob@example.test>"},
		Password: func(_ context.Context, authority string) (runtime.Secret, error) {
			if authority != "mail.test:587" {
				return runtime.Secret{}, errors.New("not for " + authority)
			}
			return runtime.NewSecret(password), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A mail goes out over TLS, with the password, and reads as it was written.
func TestAMailGoesOutOverTLSAndReadsAsWritten(t *testing.T) {
	for name, implicit := range map[string]bool{"STARTTLS": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			s := notifytest.NewSMTP(t, implicit, !implicit, "")
			m := notify.Message{ID: "msg_1", Subject: "kimbap: ü asks", Lines: []string{".", "a dot alone above, and " + strings.Repeat("long ", 40), "ü"}}
			if err := sender(t, s, implicit).Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			got := s.Mails()
			if len(got) != 1 || !got[0].TLS || got[0].User != "kimbap" || got[0].Password != password ||
				got[0].From != "kimbap@example.test" || strings.Join(got[0].To, " ") != "ann@example.test bob@example.test" {
				t.Fatalf("%+v", got)
			}
			read, err := mail.ReadMessage(strings.NewReader(got[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
			if err != nil || subject != m.Subject {
				t.Errorf("%q %v", subject, err)
			}
			body, err := io.ReadAll(quotedprintable.NewReader(read.Body))
			if err != nil || strings.TrimSpace(strings.ReplaceAll(string(body), "\r\n", "\n")) != m.Text() {
				t.Errorf("%q %v", body, err)
			}
			if read.Header.Get("Auto-Submitted") != "auto-generated" || read.Header.Get("Message-ID") != "<msg_1@example.test>" {
				t.Errorf("%v", read.Header)
			}
			if strings.Contains(s.Clear(), "AUTH") || strings.Contains(s.Clear(), "MAIL") || strings.Contains(got[0].Data, password) {
				t.Errorf("in clear: %s", s.Clear())
			}
		})
	}
}

// Without TLS, or with a stranger's, nothing is said.
func TestNothingInClear(t *testing.T) {
	plain := notifytest.NewSMTP(t, false, false, "")
	err := sender(t, plain, false).Send(t.Context(), notify.Trial("m"))
	var refused *notify.Refused
	if !errors.As(err, &refused) || strings.Contains(plain.Clear(), "AUTH") || len(plain.Mails()) != 0 {
		t.Errorf("%v, %s", err, plain.Clear())
	}
	stranger, trusted := notifytest.NewSMTP(t, false, true, ""), notifytest.NewSMTP(t, false, true, "")
	stranger.Trust = trusted.Trust
	if err := sender(t, stranger, false).Send(t.Context(), notify.Trial("m")); err == nil || len(stranger.Mails()) != 0 {
		t.Errorf("a stranger got it: %v", err)
	}
}

// A 5xx reply is final, a 4xx is not; what the server says is not repeated.
func TestA5xxReplyIsFinalAndNoneIsRepeated(t *testing.T) {
	for refuse, final := range map[string]bool{
		"AUTH 535 wrong: " + password: true, "RCPT 550 nobody": true, "MAIL 451 later": false, "DATA 452 full": false,
	} {
		s := notifytest.NewSMTP(t, true, false, refuse)
		err := sender(t, s, true).Send(t.Context(), notify.Trial("m"))
		var refused *notify.Refused
		if err == nil || errors.As(err, &refused) != final || strings.Contains(err.Error(), password) || len(s.Mails()) != 0 {
			t.Errorf("%s: %v", refuse, err)
		}
	}
}

// One recipient whom the server does not take keeps the message from nobody else; who did
// not get it is told. With none left it is refused, for good if all of it was.
func TestARecipientWhoIsNotTakenKeepsItFromNobodyElse(t *testing.T) {
	for _, c := range []struct{ refuse, to, missed, kind string }{
		{"RCPT TO:<ann@example.test> 550 no " + password, "bob@example.test", "mail.test: it was not taken for ann@example.test (550)", "partly"},
		{"RCPT TO:<bob@example.test> 450 later", "ann@example.test", "mail.test: it was not taken for bob@example.test (450)", "partly"},
		{"RCPT 550 no", "", "mail.test: it was not taken for ann@example.test (550), bob@example.test (550)", "refused"},
		{"RCPT TO:<ann@example.test> 550 no; RCPT TO:<bob@example.test> 450 later", "", "mail.test: it was not taken for ann@example.test (550), bob@example.test (450)", "again"},
		{"RCPT TO:<bob@example.test> 550 no; DATA 452 full", "", "mail.test replied 452", "again"},
	} {
		s := notifytest.NewSMTP(t, true, false, c.refuse)
		err := sender(t, s, true).Send(t.Context(), notify.Trial("m"))
		kind := "again"
		if partly := (*notify.Partly)(nil); errors.As(err, &partly) {
			kind = "partly"
		} else if refused := (*notify.Refused)(nil); errors.As(err, &refused) {
			kind = "refused"
		}
		to := ""
		for _, m := range s.Mails() {
			to += strings.Join(m.To, " ")
		}
		if err == nil || err.Error() != c.missed || kind != c.kind || to != c.to {
			t.Errorf("%s: to %q, %s: %v", c.refuse, to, kind, err)
		}
	}
}

// No line is longer than RFC 5322 section 2.1.1 allows, whoever is told of whatever.
func TestNoLineIsTooLong(t *testing.T) {
	s := notifytest.NewSMTP(t, true, false, "")
	o := email.Options{Dial: s.Dial, Trust: s.Trust, Clock: time.Now, Server: "mail.test:465", Implicit: true, From: "kimbap@example.test"}
	for n := range 60 {
		o.To = append(o.To, fmt.Sprintf("Somebody with a name of some length <person-%d@department.example.test>", n))
	}
	many, err := email.New(o)
	if err != nil {
		t.Fatal(err)
	}
	m := notify.Message{ID: "msg_1", Subject: "kimbap: " + strings.Repeat("é", 400) + " asks", Lines: []string{strings.Repeat("long ", 400)}}
	if err := many.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	data := s.Mails()[0].Data
	for line := range strings.Lines(data) {
		if len(line) > 998 {
			t.Errorf("a line of %d octets: %.60s…", len(line), line)
		}
	}
	read, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	to, err := read.Header.AddressList("To")
	subject, undecoded := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	if err != nil || len(to) != 60 || to[59].Address != "person-59@department.example.test" || undecoded != nil || subject != m.Subject {
		t.Errorf("%v %v, %q %v", to, err, subject, undecoded)
	}
}

// A server that says nothing holds nobody longer than the context.
func TestASilentServerHoldsNobodyLongerThanTheContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := notifytest.NewSMTP(t, true, false, "")
	s.Authority = ln.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := sender(t, s, false).Send(ctx, notify.Trial("m")); err == nil {
		t.Error("sent to nobody")
	}
}

func TestIncompleteOptionsAreRefused(t *testing.T) {
	dial := func(context.Context, string) (net.Conn, error) { return nil, errors.New("no") }
	s := notifytest.NewSMTP(t, true, false, "")
	good := email.Options{Dial: dial, Trust: s.Trust, Clock: time.Now, Server: "mail.test:465", From: "a@example.test", To: []string{"b@example.test"}}
	if _, err := email.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *email.Options){
		"no server": func(o *email.Options) { o.Server = "mail.test" }, "no sender": func(o *email.Options) { o.From = "a b c" },
		"nobody": func(o *email.Options) { o.To = nil }, "two lines": func(o *email.Options) { o.To = []string{"b@example.test\r\nBcc: c@example.test"} },
		"user alone": func(o *email.Options) { o.User = "x" },
	} {
		o := good
		change(&o)
		if _, err := email.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
