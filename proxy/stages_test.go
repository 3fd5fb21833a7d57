package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// stages are all stages of the pipeline.
type stages struct {
	mu        sync.Mutex
	upstreams map[string]string // authority → address
	table     *classifier.Table
	deny      map[runtime.Ref]bool
	revoked   bool
	intents   []runtime.Record
	outcomes  chan runtime.Record
	dials     []string
	execute   func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) // nil: HTTP/1.1 upstream
	judge     func(runtime.Question) runtime.Verdict                                          // nil: allow what deny does not name
}

func (s *stages) Identify(_ context.Context, c runtime.Caller) (runtime.Principal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked && !c.Token.Empty() {
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenRevoked, Msg: "revoked"}
	}
	p := runtime.Principal{ID: "local:1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Scopes: []runtime.Scope{"*"}}
	switch {
	case c.Token.Equal(runtime.NewSecret(goodToken)):
		p.ID = "token:good"
		return p, nil
	case !c.Token.Empty():
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenUnknown, Msg: "unknown token"}
	case c.Peer.Owner && !c.RequireToken:
		return p, nil
	}
	return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonNoToken, Msg: "a token is needed"}
}

func (s *stages) Resolve(req *runtime.Request) (runtime.Resolved, error) {
	a := &runtime.Action{Ref: req.Action, Backend: "rest", Auth: &runtime.Auth{}}
	if req.Target.Scheme == "tcp" {
		a.Backend = "tunnel"
	}
	return runtime.Resolved{Action: a, Args: req.Args}, nil
}

func (s *stages) Decide(q runtime.Question) runtime.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deny[q.Action.Ref] {
		return runtime.Verdict{Effect: runtime.EffectDeny, Rule: "test"}
	}
	if s.judge != nil {
		return s.judge(q)
	}
	return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "test"}
}

// Take implements [runtime.Limiter]: nothing here has a limit.
func (s *stages) Take(context.Context, []runtime.Limit, time.Time) error { return nil }

func (s *stages) Await(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) {
	return runtime.Ticket{}, errors.New("nobody asks here")
}
func (s *stages) Finish(context.Context, runtime.Ticket, error) error { return nil }
func (s *stages) Credential(context.Context, runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
	return runtime.Credential{}, nil
}
func (s *stages) Ready() error { return nil }
func (s *stages) Intent(_ context.Context, r *runtime.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents = append(s.intents, *r)
	return nil
}
func (s *stages) Outcome(r *runtime.Record) { s.outcomes <- *r }

// current is the table in force.
func (s *stages) current() Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}

// own compiles the routes of a service at the authorities: /open and below,
// /repos/{owner}/{repo} and its pulls, /denied, and /judged, whose body is read.
func (s *stages) own(t *testing.T, origins ...string) {
	t.Helper()
	var routes []classifier.Prepared
	for _, origin := range origins {
		scheme, authority, _ := strings.Cut(origin, "://")
		for path, action := range map[string]string{
			"/open": "good.open", "/open/{rest...}": "good.open", "/repos/{owner}/{repo}": "good.open",
			"/repos/{owner}/{repo}/pulls": "good.open", "/denied": "good.denied", "/judged": "good.open",
		} {
			route, err := classifier.Prepare(classifier.Route{
				Action: action, Service: "good", Schemes: []string{scheme}, Authorities: []string{authority},
				Methods: []string{"GET", "HEAD", "POST"}, Path: path, Strict: path == "/judged", Source: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			routes = append(routes, route)
		}
	}
	table, err := classifier.Join(routes)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = table
}

// Dial is the guarded dialer: only what the test has put up can be reached.
func (s *stages) Dial(ctx context.Context, authority string, _, _ bool) (net.Conn, string, bool, error) {
	s.mu.Lock()
	address := s.upstreams[authority]
	s.dials = append(s.dials, authority)
	s.mu.Unlock()
	if address == "" {
		return nil, "", false, &runtime.Error{Code: runtime.CodeEgressDenied, Msg: "refused by the egress guard"}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	return c, address, true, err
}

// Execute is a plain HTTP/1.1 backend: the upstreams of the tests speak
// cleartext also for https, since the second leg is not ours.
func (s *stages) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	if s.execute != nil {
		return s.execute(ctx, call, out)
	}
	var res runtime.Result
	in := call.Request
	transport := &http.Transport{
		DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, _, _, err := s.Dial(ctx, in.Target.Authority, true, true)
			return c, err
		},
	}
	defer transport.CloseIdleConnections()
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		return out.Informational(code, http.Header(h))
	}}
	path, query, _ := strings.Cut(in.Target.Path, "?")
	req := (&http.Request{
		Method: in.Target.Method, Host: in.Target.Authority, Header: in.Raw.Header, ContentLength: in.Raw.ContentLength,
		URL: &url.URL{Scheme: "http", Host: in.Target.Authority, Opaque: path, RawQuery: query},
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if in.Raw.Body != nil {
		req.Body = io.NopCloser(in.Raw.Body)
		req.Trailer = http.Header{}
		for _, name := range in.Raw.Announced {
			req.Trailer[name] = nil
		}
		req.Body = &trailing{Reader: in.Raw.Body, fill: func() {
			for name, values := range in.Raw.Trailer() {
				req.Trailer[name] = values
			}
		}}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header["User-Agent"] = nil
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return res, upstreamError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	res.Status = resp.StatusCode
	header := resp.Header
	for name := range resp.Trailer {
		header.Add("Trailer", name)
	}
	if err := out.Start(resp.StatusCode, header); err != nil {
		return res, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return res, pass(resp, out)
	}
	buf := make([]byte, 8<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, werr := out.Write(buf[:n]); werr != nil {
				return res, &runtime.Error{Code: runtime.CodeCanceled, Msg: "client gone", Err: werr}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return res, &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonTruncated, Msg: "cut", Err: err}
		}
	}
	out.Trailer(resp.Trailer)
	return res, nil
}

func upstreamError(err error) error {
	var e *runtime.Error
	if errors.As(err, &e) {
		return e
	}
	return &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Msg: "upstream failed", Err: err}
}

// pass joins an upgraded connection.
func pass(resp *http.Response, out runtime.Responder) error {
	client, err := out.Upgrade()
	if err != nil {
		return err
	}
	up := resp.Body.(io.ReadWriteCloser)
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(up, client); _ = up.Close() }()
	_, _ = io.Copy(client, up)
	_ = client.Close()
	<-done
	return nil
}

// trailing fills in trailers when the body has ended.
type trailing struct {
	io.Reader
	fill func()
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.fill()
	}
	return n, err
}
func (b *trailing) Close() error { return nil }
