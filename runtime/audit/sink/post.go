// Package sink holds what the further places for the lines of the audit ledger
// share: a way to post to a URL of the operator's. Each place is a package below
// this one.
//
// A sink gets lines that are already durable in the ledger; it refuses nothing
// and changes nothing in them. Start reading at [Poster].
package sink

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// PosterOptions are what a [Poster] is made of. URL is required.
type PosterOptions struct {
	URL     string
	Token   runtime.Secret // sent as a bearer token; may be empty
	TLS     *tls.Config    // nil: TLS 1.2 and up, the system's roots
	Timeout time.Duration  // of one request; 10 s when 0
}

const (
	postTimeout = 10 * time.Second
	maxAnswer   = 64 << 10 // bytes of an answer that are read
)

// Poster sends bodies to one URL of the operator's. It goes there directly,
// whatever proxy the environment names, and follows no redirect: the records and
// the token are for this place only. It is safe for concurrent use.
type Poster struct {
	o      PosterOptions
	host   string
	client *http.Client
}

// NewPoster checks the options; it does no IO.
func NewPoster(o PosterOptions) (*Poster, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, errors.New("audit sink: PosterOptions.URL is no http or https URL") // it may hold a secret
	}
	if o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.Timeout <= 0 {
		o.Timeout = postTimeout
	}
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: o.Timeout}).DialContext,
		TLSClientConfig: o.TLS.Clone(), TLSHandshakeTimeout: o.Timeout,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		// A connection whose other end is gone without a word: without a ping each request would
		// wait on it in turn.
		HTTP2: &http.HTTP2Config{SendPingTimeout: o.Timeout / 5, PingTimeout: o.Timeout / 5},
	}
	return &Poster{o: o, host: u.Host, client: &http.Client{
		Transport: transport, Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Host is where the poster sends to, for names and errors: the rest of the URL
// may hold a secret.
func (p *Poster) Host() string { return p.host }

// Post sends one body with these header fields, a Content-Type among them, and returns the beginning of a 2xx answer. An error that
// the same body would meet again is an [outlet.Refused]; one that says when to
// come back is an [outlet.Later].
func (p *Poster) Post(ctx context.Context, fields http.Header, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("post to %s: bad URL", p.host)
	}
	for name, values := range fields {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", "kimbap")
	if !p.o.Token.Empty() {
		r.Header.Set("Authorization", "Bearer "+p.o.Token.Reveal())
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("post to %s: %w", p.host, cause(err))
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch status := answer.StatusCode; {
	case status/100 == 2 && err == nil:
		return text, nil
	case status/100 == 2:
		return nil, fmt.Errorf("post to %s: read the answer: %w", p.host, err)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return nil, &outlet.Later{After: retryAfter(answer.Header), Err: fmt.Errorf("post to %s: status %d", p.host, status)}
	case status == http.StatusRequestEntityTooLarge:
		return nil, &outlet.Refused{Fewer: true, Err: fmt.Errorf("post to %s: status %d", p.host, status)}
	default:
		return nil, &outlet.Refused{Err: fmt.Errorf("post to %s: status %d", p.host, status)}
	}
}

// Close lets idle connections go.
func (p *Poster) Close() { p.client.CloseIdleConnections() }

// cause takes the URL, which may hold a secret, out of an error of the client.
func cause(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// retryAfter reads the number of seconds of RFC 9110 section 10.2.3; a date, or
// more than a minute, is left to our own backoff.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 || n > 60 {
		return 0
	}
	return time.Duration(n) * time.Second
}
