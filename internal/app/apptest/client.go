package apptest

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// patience bounds everything that a client waits for.
const patience = 20 * time.Second

// Answer is what a client was told.
type Answer struct {
	Status  int
	Header  http.Header
	Body    string
	Problem Problem // of a refusal by kimbap; zero otherwise
	Err     error   // the body did not end cleanly
}

// Problem is the body of a refusal.
type Problem struct {
	Code      string `json:"code"`
	Reason    string `json:"reason"`
	Action    string `json:"action"`
	Rule      string `json:"rule"`
	Hint      string `json:"hint"`
	RequestID string `json:"request_id"`
	Approval  string `json:"approval_id"`
	Result    string `json:"result_url"`
}

// Roots are the certificates that a client of this kimbap trusts: the home's
// own, and the upstream's for what is passed untouched.
func (k *Kimbap) Roots() *x509.CertPool {
	pool := k.Up.Roots()
	pool.AppendCertsFromPEM(k.roots)
	return pool
}

// Client is an ordinary HTTP client behind the proxy; token may be empty.
func (k *Kimbap) Client(t testing.TB, token string) *http.Client {
	return k.ClientOf(t, k.Proxy, token)
}

// ClientOf is a client of another proxy over the same home.
func (k *Kimbap) ClientOf(t testing.TB, proxy, token string) *http.Client {
	at := &url.URL{Scheme: "http", Host: proxy}
	if token != "" {
		at.User = url.User(token)
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: k.Roots()},
		DisableCompression: true, ForceAttemptHTTP2: false,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Do sends one request of the form "POST https://host/path" with a body by an
// ordinary client of its own.
func (k *Kimbap) Do(t testing.TB, line, body string) Answer {
	t.Helper()
	return Send(t, k.Client(t, ""), line, body)
}

// Send sends one request by the client. A refused CONNECT, which clients report
// as an error, is a problem in the test: such requests are sent by hand.
func Send(t testing.TB, c *http.Client, line, body string) Answer {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, content)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return Carry(t, c, r)
}

// Carry sends any request by the client, as Send does.
func Carry(t testing.TB, c *http.Client, r *http.Request) Answer {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return read(res)
}

func read(res *http.Response) Answer {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := Answer{Status: res.StatusCode, Header: res.Header, Body: string(body), Err: err}
	if res.Header.Get("Content-Type") == runtime.ProblemType {
		_ = json.Unmarshal(body, &a.Problem)
	}
	return a
}

// Wire is a connection to the proxy on which a test writes what it likes.
type Wire struct {
	net.Conn
	r *bufio.Reader
}

// Read implements [io.Reader], behind what was read for the last answer.
func (w *Wire) Read(p []byte) (int, error) { return w.r.Read(p) }

// Dial connects to the proxy.
func (k *Kimbap) Dial(t testing.TB) *Wire {
	t.Helper()
	c, err := net.DialTimeout("tcp", k.Proxy, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &Wire{c, bufio.NewReader(c)}
}

// Ask writes the text and reads one answer. With no answer the Status is 0.
func (w *Wire) Ask(text string) Answer {
	if _, err := io.WriteString(w.Conn, text); err != nil {
		return Answer{Err: err}
	}
	return w.Answer()
}

// Answer reads one answer.
func (w *Wire) Answer() Answer {
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return Answer{Err: err}
	}
	if res.StatusCode == http.StatusOK && res.ContentLength < 0 && len(res.TransferEncoding) == 0 || res.StatusCode == http.StatusSwitchingProtocols {
		return Answer{Status: res.StatusCode, Header: res.Header} // a tunnel begins
	}
	return read(res)
}

// Connect asks for a tunnel; fields are further lines of the head.
func (k *Kimbap) Connect(t testing.TB, authority string, fields ...string) (*Wire, Answer) {
	t.Helper()
	w := k.Dial(t)
	head := append([]string{"CONNECT " + authority + " HTTP/1.1", "Host: " + authority}, fields...)
	return w, w.Ask(strings.Join(head, "\r\n") + "\r\n\r\n")
}

// Tunnel opens a tunnel to the authority and TLS in it.
func (k *Kimbap) Tunnel(t testing.TB, authority string, fields ...string) *Wire {
	t.Helper()
	w, a := k.Connect(t, authority, fields...)
	if a.Status != http.StatusOK {
		t.Fatalf("CONNECT %s: %d %+v", authority, a.Status, a.Problem)
	}
	return w.TLS(t, k.Roots(), authority)
}

// TLS begins TLS on the wire for the host of the authority.
func (w *Wire) TLS(t testing.TB, roots *x509.CertPool, authority string) *Wire {
	t.Helper()
	inside, err := w.TryTLS(roots, authority)
	if err != nil {
		t.Fatalf("TLS with %s: %v", authority, err)
	}
	return inside
}

// TryTLS is TLS for a handshake that may fail.
func (w *Wire) TryTLS(roots *x509.CertPool, authority string) (*Wire, error) {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		return nil, err
	}
	c := tls.Client(w, &tls.Config{RootCAs: roots, ServerName: strings.TrimSuffix(strings.ToLower(host), ".")})
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return &Wire{c, bufio.NewReader(c)}, nil
}
