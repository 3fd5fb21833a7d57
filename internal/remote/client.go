// Package remote is the other end of the REST API: a kimbap that runs elsewhere, or
// the daemon of this user on its socket. It holds no vault and opens no home; it
// shows a token, or on a socket its own uid, and says what the other side said.
//
// It refuses to send a token in clear to another machine, follows no redirect, and
// reads no answer without end. Start reading at [New].
package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// What bounds an answer, in bytes: in all, and its head.
const (
	maxAnswer = 65 << 20
	maxHead   = 64 << 10
)

// userAgent says that the caller is the command, whose user has flags where the REST API has
// members: a refusal then names those.
const userAgent = "kimbap"

// dialTimeout is how long the other side may take to be reached.
const dialTimeout = 10 * time.Second

// ErrUnreachable in the chain of an error says that nobody answered at all, and
// that nothing was sent.
var ErrUnreachable = errors.New("kimbap cannot be reached")

// Options say where the other side is: a URL, or the path of a socket.
type Options struct {
	URL    string
	Socket string
	Token  runtime.Secret // empty on a socket: the caller is its own uid
	Roots  *x509.CertPool // what the certificate of an https URL is held to; nil: the system's
}

// Client talks to one kimbap. It is safe for concurrent use.
type Client struct {
	base  string
	at    *url.URL // of base
	token runtime.Secret
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	tls   *tls.Config
	http  *http.Client
	after func(time.Duration) <-chan time.Time

	socket bool // nobody stands between
}

// New checks the options. Nothing is dialled yet.
func New(o Options) (*Client, error) {
	c := &Client{at: &url.URL{Scheme: "http", Host: "localhost"}, token: o.Token, tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots}, socket: o.Socket != "", after: time.After}
	dialer := &net.Dialer{Timeout: dialTimeout}
	c.dial = dialer.DialContext
	if o.Socket != "" {
		c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", o.Socket)
		}
	} else {
		var err error
		if c.at, err = checked(o.URL); err != nil {
			return nil, err
		}
		if c.at.Scheme == "http" {
			dialer.Control = onlyHere
		}
		if o.Token.Empty() {
			return nil, &runtime.Error{
				Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonNoToken, Msg: "a kimbap elsewhere wants a token, and there is none",
				Hint: "give --token-file FILE, or set KIMBAP_TOKEN",
			}
		}
	}
	c.base = c.at.String()
	transport := &http.Transport{
		DialContext: c.dial, TLSClientConfig: c.tls.Clone(), TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: maxHead,
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// Close ends connections that are kept.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// checked is the URL of a server, checked. A token goes in clear to this machine only.
func checked(text string) (*url.URL, error) {
	bad := func(why string) error {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("--server %s", why), Hint: "write for example --server https://kimbap.example.com"}
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, bad("is not the URL of a server")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, bad("would send the token in clear to another machine")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// onlyHere refuses to connect to another machine in clear, whatever address a name
// such as localhost was made to have. It is asked with the address that is dialled.
func onlyHere(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is another machine, and the token would go there in clear", address)
	}
	return nil
}

// Do sends one request and returns the bytes of its answer. Its errors are
// *runtime.Error as the other side said it, or have [ErrUnreachable] in their chain.
func (c *Client) Do(ctx context.Context, method, path string, body any) ([]byte, error) {
	return c.do(ctx, method, path, body, maxAnswer)
}

// do is Do with a bound of the answer, in bytes.
func (c *Client) do(ctx context.Context, method, path string, body any, most int64) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", userAgent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if !c.token.Empty() {
		r.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	if listens(ctx) && method == http.MethodPost {
		r.Header.Set(fieldInterim, "1")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unanswered(ctx, method, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return nil, c.unanswered(ctx, method, err)
	case int64(len(data)) > most:
		return nil, &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge, Msg: "the answer is too long"}
	case answer.StatusCode >= http.StatusMultipleChoices:
		return nil, c.refusal(method, answer, data)
	}
	return data, nil
}

// Get reads one value.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	data, err := c.Do(ctx, http.MethodGet, path, nil)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	return err
}

// List reads the items of a list, page by page, until there are most of them; 0: all.
func (c *Client) List(ctx context.Context, path string, query url.Values, most int) ([]json.RawMessage, error) {
	out := []json.RawMessage{}
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	for {
		limit := 500
		if most > 0 {
			limit = min(limit, most-len(out))
		}
		q.Set("limit", strconv.Itoa(limit))
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_cursor"`
		}
		if err := c.Get(ctx, path+"?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if page.Next == "" || len(page.Items) == 0 || most > 0 && len(out) >= most {
			return out, nil
		}
		q.Set("cursor", page.Next)
	}
}

// unanswered says that no answer came, and whether anything may have happened.
func (c *Client) unanswered(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return &runtime.Error{
			Code: runtime.CodeUpstreamTLS, Msg: "the certificate of " + c.base + " is not trusted", Err: untrusted.Err,
			Hint: "where it has an authority of its own: server: {ca_file: FILE} in config.yaml",
		}
	}
	// The first record was none (Conn says that it was the first), so nothing was sent.
	if noTLS := (tls.RecordHeaderError{}); errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &noTLS) && noTLS.Conn != nil {
		return &runtime.Error{
			Code: runtime.CodeUpstreamTLS, Msg: c.base + " does not speak TLS", Err: err,
			Hint: "on this machine: write http://; elsewhere start kimbap serve with --tls-cert and --tls-key",
		}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, dial)
	}
	e := &runtime.Error{Msg: c.base + " did not answer", Err: err, Hint: c.between()}
	if c.at.Scheme == "http" && !c.socket && errors.Is(err, io.EOF) {
		e.Hint = "perhaps it wants https://; " + e.Hint
	}
	return c.unsure(method, e)
}

// tlsWanted is in what Go's server says to a request in clear, which it reads no further; the
// like of it is in what others say.
var tlsWanted = []byte("HTTPS")

// uncertain is an error of which nobody knows what came before it.
type uncertain struct{ of *runtime.Error }

// Error implements error.
func (u uncertain) Error() string { return u.of.Error() }

// Unwrap returns the error itself.
func (u uncertain) Unwrap() error { return u.of }

// Uncertain reports whether a request may have been done, and its answer is lost.
func Uncertain(err error) bool { return errors.As(err, &uncertain{}) }

// between is a hint for an answer that did not come in time.
func (c *Client) between() string {
	if c.socket {
		return ""
	}
	return "a proxy before the server must wait for as long as it may take (docs/serve.md)"
}

// unsure says what to do where nobody knows what came of a request.
func (c *Client) unsure(method string, e *runtime.Error) error {
	first := "before you try again, see whether it was done: kimbap audit tail"
	if method == http.MethodGet {
		first = "try again"
	}
	if e.Code = runtime.CodeUpstream; e.Hint != "" {
		first += "; " + e.Hint
	}
	if e.Hint = first; method == http.MethodGet {
		return e
	}
	return uncertain{e}
}

// refusal reads a problem (RFC 9457).
func (c *Client) refusal(method string, answer *http.Response, data []byte) error {
	var p struct {
		runtime.Problem
		Upstream string `json:"upstream"`
		Cause    string `json:"cause"`
		Ask      string `json:"ask"`
	}
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		if s := answer.StatusCode; s >= http.StatusBadGateway && s <= http.StatusGatewayTimeout {
			e := &runtime.Error{Msg: fmt.Sprintf("a proxy before the server answered %d in its place", s), Hint: "see that the server runs"}
			if s == http.StatusGatewayTimeout {
				e.Hint = c.between()
			}
			return c.unsure(method, e)
		}
		if c.at.Scheme == "http" && answer.StatusCode == http.StatusBadRequest && bytes.Contains(data, tlsWanted) {
			return &runtime.Error{Code: runtime.CodeUpstreamTLS, Msg: c.base + " wants TLS", Hint: "write https://"}
		}
		return &runtime.Error{Code: runtime.CodeUpstream, Msg: fmt.Sprintf("the server answered %d, and is perhaps no kimbap", answer.StatusCode), Hint: "look at the URL"}
	}
	e := &runtime.Error{
		Code: p.Code, Reason: p.Reason, Msg: p.Detail, Hint: p.Hint, Ask: p.Ask, RequestID: p.RequestID, Action: p.Action, Rule: p.Rule,
		ApprovalID: p.ApprovalID, ResultURL: p.ResultURL, UpstreamStatus: p.UpstreamStatus,
	}
	for _, said := range []string{p.Cause, p.Upstream} {
		if said != "" {
			e.Err = errors.New(said)
		}
	}
	if n, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && n >= 0 {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	return e
}
