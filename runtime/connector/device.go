package connector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/kimbap-run/kimbap/runtime"
)

// BeginOnDevice starts a sign-in that a person completes on another device. A client that has a
// secret shows it there too (RFC 8628 section 3.1), where that is the host that tokens come from.
func (c *Connector) BeginOnDevice(ctx context.Context, at *runtime.OAuth, who Client, scopes []string) (*SignIn, error) {
	s := c.start(at, who, scopes)
	way, extra := c.o.Client.Transport, further(at)
	switch {
	case who.Secret.Empty() || !sameOrigin(at.DeviceURL, at.TokenURL):
	case at.ClientAuth == "basic":
		way = showing{way, &s.grant}
	default:
		extra = append(extra, oauth2.SetAuthURLParam("client_secret", who.Secret.Reveal()))
	}
	d, err := s.config.DeviceAuth(c.through(ctx, frank{plain{leaving{way, ctx}}}), extra...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, s.notSignedIn(told(ofDevices, err))
	}
	c.o.Keeper.Hide(runtime.NewSecret(d.DeviceCode))
	s.device, s.URL, s.Code = d, d.VerificationURI, d.UserCode
	if !page(s.URL) || !shown(s.Code) {
		return nil, s.notSignedIn(errors.New("the provider gave a code or a page that cannot be shown"))
	}
	if d.Interval != 0 { // a ticker takes no other
		d.Interval = min(max(d.Interval, 1), longestInterval)
	}
	return s, nil
}

// frank has a refusal be one, also where the provider calls it a success: an answer with an error
// in the place of a code.
type frank struct {
	next plain
}

// RoundTrip implements [http.RoundTripper].
func (f frank) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	text, err := io.ReadAll(answer.Body) // which has been read, within bounds
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	var said struct {
		Error string `json:"error"`
		Code  string `json:"device_code"`
	}
	if json.Unmarshal(text, &said) == nil && said.Error != "" && said.Code == "" {
		return nil, refusalOf(answer, said.Error)
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, nil
}

// leaving ends requests with a context that the library does not pass on, as it asks for a
// device's code.
type leaving struct {
	next http.RoundTripper
	ctx  context.Context //nolint:containedctx // of the one question that it is made for
}

// RoundTrip implements [http.RoundTripper].
func (l leaving) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context()) // which has the client's own time
	stop := context.AfterFunc(l.ctx, cancel)
	end := func() { stop(); cancel() }
	answer, err := l.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	answer.Body = closing{answer.Body, end}
	return answer, nil
}

// showing adds the client of a grant to requests.
type showing struct {
	next http.RoundTripper
	g    *Grant
}

// RoundTrip implements [http.RoundTripper].
func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(url.QueryEscape(s.g.ClientID), url.QueryEscape(s.g.ClientSecret)) // RFC 6749 section 2.3.1
	return s.next.RoundTrip(r)
}

// sameOrigin reports whether two addresses are of one scheme and host.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	y, other := url.Parse(b)
	return err == nil && other == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host)
}

// shown reports whether a text of a provider can be printed: one line of plain letters.
func shown(text string) bool {
	return text != "" && len(text) < 2000 && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// longestInterval is how many seconds a provider may have us wait between two questions: it may
// say anything.
const longestInterval = 60

// page reports whether a person can be sent to an address that a provider gave: a page of the
// web, or of this machine, and no file or script.
func page(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User == nil && shown(text) && guarded(text)
}

// Await waits until the person has agreed on the other device, or ctx ends. A grant that is
// being given at that moment is taken.
func (s *SignIn) Await(ctx context.Context) (*Grant, error) {
	interval := cmp.Or(s.device.Interval, 5) // RFC 8628 section 3.2
	for {
		if err := s.pause(ctx, time.Duration(interval)*time.Second); err != nil {
			return nil, err
		}
		t, err := s.poll(ctx)
		code := saidBy(err)
		switch {
		case err == nil:
			return s.take(t, nil)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case code == "authorization_pending":
		case code == "slow_down":
			interval += 5 // for all that follows (section 3.5)
		case passes(err) && !s.expired() && s.failures < longestOutage:
			s.failures++
			interval = max(interval, min(2*interval, longestInterval))
		default:
			return s.take(nil, err)
		}
	}
}

// pause is the time between two questions. It ends with the sign-in, or with the code that the
// person was shown.
func (s *SignIn) pause(ctx context.Context, pause time.Duration) error {
	var over <-chan time.Time
	if !s.device.Expiry.IsZero() {
		over = time.After(time.Until(s.device.Expiry))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return notGranted("expired_token") // RFC 8628 section 3.5, which the provider would say
	case <-time.After(pause):
		return nil
	}
}

// poll asks once whether the person has agreed (RFC 8628 section 3.4). The library asks in a loop
// that cuts an answer with the end of the code, and forgets how slow it was told to be.
func (s *SignIn) poll(ctx context.Context) (*oauth2.Token, error) {
	how := *s.config
	how.Scopes = nil // they were asked for with the code
	return question(&how, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {s.device.DeviceCode}, "client_id": {s.config.ClientID},
	}).Token(s.c.heard(ctx, &s.grant))
}

// saidBy is the code that an error of a provider has, "" for none.
func saidBy(err error) string {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		return said.ErrorCode
	}
	return ""
}

// longestOutage is how many failures of a provider a sign-in outlives, each after twice the pause.
const longestOutage = 4

// expired reports whether the code that a person was shown has ended.
func (s *SignIn) expired() bool {
	return !s.device.Expiry.IsZero() && !time.Now().Before(s.device.Expiry)
}

// passes reports whether an error of a provider may be gone in a moment: it was not reached, or
// says nothing of the sign-in. What kimbap itself refuses stays refused.
func passes(err error) bool {
	var lost *url.Error
	var said *oauth2.RetrieveError
	var own *runtime.Error
	if errors.As(err, &own) && own.Code != runtime.CodeUpstream {
		return false
	}
	if errors.As(err, &said) {
		return (&refusal{status: said.Response.StatusCode, code: said.ErrorCode}).passes()
	}
	return errors.As(err, &lost)
}
