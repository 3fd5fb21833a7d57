package remote

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// answerLimit is how long the other side may take to say that it lends its proxy.
const answerLimit = 10 * time.Second

// maxSmall bounds answers that are short by their nature, in bytes.
const maxSmall = 256 << 10

// upgradeTo is the protocol that a borrowed connection changes to.
const upgradeTo = "kimbap-proxy"

// fieldUnattended says of a borrowed connection that nobody can be asked, and in the
// answer that the other side keeps to that.
const fieldUnattended = "Kimbap-Unattended"

// small reads one value that is short, and soon there.
func (c *Client) small(ctx context.Context, path string, into any) error {
	return c.soon(ctx, http.MethodGet, path, nil, into)
}

// soon is Do for what is short, and soon answered. into is nil where nothing is said.
func (c *Client) soon(ctx context.Context, method, path string, body, into any) error {
	patient, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	data, err := c.do(patient, method, path, body, maxSmall)
	if err == nil && into != nil && json.Unmarshal(data, into) != nil {
		return c.strange()
	}
	return c.late(ctx, err)
}

// strange says that the other side is not what it should be.
func (c *Client) strange() error {
	return &runtime.Error{Code: runtime.CodeUpstream, Msg: c.base + " does not answer as a kimbap does", Hint: "look at the URL"}
}

// late says of a time that was ours, not the caller's, that it is over.
func (c *Client) late(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return &runtime.Error{Code: runtime.CodeTimeout, Msg: c.base + " does not answer", Hint: "look whether it is well: " + c.base + "/healthz"}
	}
	return err
}

// maxPorts is how many ports of services a network is opened for.
const maxPorts = 64

// Proxy returns the certificates, PEM, that programs behind the other side's proxy
// are to trust, and the host:port of services there that have a port of their own.
func (c *Client) Proxy(ctx context.Context) (root []byte, authorities []string, err error) {
	var said struct {
		Root        string   `json:"root_pem"`
		Authorities []string `json:"authorities"`
	}
	err = c.small(ctx, "/v1/proxy", &said)
	if e := (*runtime.Error)(nil); errors.As(err, &e) && e.Reason == runtime.ReasonNotFound {
		err = &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: c.base + " lends no proxy", Hint: "on its machine: kimbap serve --proxy",
		}
	}
	return []byte(said.Root), said.Authorities[:min(len(said.Authorities), maxPorts)], err
}

// Linked are the names of services that the token may use and that have a key.
func (c *Client) Linked(ctx context.Context) ([]string, error) {
	patient, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	items, err := c.List(patient, "/v1/services", nil, maxServices)
	if err != nil {
		return nil, c.late(ctx, err)
	}
	var out []string
	for _, item := range items {
		var s struct {
			Name     string `json:"name"`
			Linked   bool   `json:"linked"`
			NeedsKey bool   `json:"needs_key"`
		}
		if err := json.Unmarshal(item, &s); err != nil {
			return nil, err
		}
		if s.Linked && s.NeedsKey {
			out = append(out, s.Name)
		}
	}
	return out, nil
}

// maxServices is how many services are looked at.
const maxServices = 2000

// Run reads what became of a run's requests.
func (c *Client) Run(ctx context.Context, run string, into any) error {
	return c.small(ctx, "/v1/proxy/runs/"+url.PathEscape(run), into)
}

// Loan is what the other side is told of a connection that is borrowed.
type Loan struct {
	Run        string // names the run that it is for
	Address    string // where its program reaches this side
	Unattended bool   // nobody can be asked: what needs approval is refused at once
}

// Borrow opens a connection that is from then on one of the other side's proxy.
// The connection is TCP or TLS and can be half closed.
func (c *Client) Borrow(ctx context.Context, loan Loan) (net.Conn, error) {
	patient, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	conn, err := c.connect(patient)
	if err != nil {
		return nil, c.late(ctx, c.unanswered(patient, http.MethodGet, err))
	}
	stop := context.AfterFunc(patient, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.upgrade(patient, conn, loan)
	if !stop() && err == nil { // it came at the last moment, and cannot be used any more
		err = patient.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, c.late(ctx, err)
	}
	return conn, nil
}

// connect opens a connection, with TLS where the URL has it.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(c.at.Hostname(), cmp.Or(c.at.Port(), runtime.DefaultPort(c.at.Scheme))))
	if err != nil || c.at.Scheme == "http" {
		return conn, err
	}
	settings := c.tls.Clone()
	settings.ServerName, settings.NextProtos = c.at.Hostname(), []string{"http/1.1"}
	secure := tls.Client(conn, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// upgrade asks for the proxy, and reads whether it is given.
func (c *Client) upgrade(ctx context.Context, conn net.Conn, loan Loan) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/proxy/connection", nil)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": upgradeTo, "Authorization": "Bearer " + c.token.Reveal(), "Kimbap-Run": loan.Run, "Kimbap-Address": loan.Address,
	} {
		r.Header.Set(name, value)
	}
	if loan.Unattended {
		r.Header.Set(fieldUnattended, "true")
	}
	if err := r.Write(conn); err != nil {
		return c.unanswered(ctx, r.Method, err)
	}
	// The proxy says nothing before it is asked, so nothing of it is read here.
	from := bufio.NewReader(io.LimitReader(conn, maxHead+maxSmall))
	answer, err := http.ReadResponse(from, r)
	if err != nil {
		return c.unanswered(ctx, r.Method, err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch {
	case answer.StatusCode != http.StatusSwitchingProtocols:
		data, _ := io.ReadAll(answer.Body)
		return c.refusal(r.Method, answer, data)
	case answer.Header.Get("Upgrade") != upgradeTo || from.Buffered() > 0:
		return c.strange()
	case loan.Unattended && answer.Header.Get(fieldUnattended) != "true":
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: c.base + " knows no unattended runs: it would wait for a person", Hint: "leave --unattended out, or update kimbap there",
		}
	}
	return nil
}
