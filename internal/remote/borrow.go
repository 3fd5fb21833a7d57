package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
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

// small reads one value that is short, and soon there.
func (c *Client) small(ctx context.Context, path string, into any) error {
	patient, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	data, err := c.do(patient, http.MethodGet, path, nil, maxSmall)
	if err == nil && json.Unmarshal(data, into) != nil {
		return &runtime.Error{Code: runtime.CodeUpstream, Msg: c.base + " does not answer as a kimbap does", Hint: "look at the URL"}
	}
	return c.late(ctx, err)
}

// late says of a time that was ours, not the caller's, that it is over.
func (c *Client) late(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return &runtime.Error{Code: runtime.CodeTimeout, Msg: c.base + " does not answer", Hint: "look whether it is well: " + c.base + "/healthz"}
	}
	return err
}

// Root returns the certificates, PEM, that programs behind the other side's proxy
// are to trust.
func (c *Client) Root(ctx context.Context) ([]byte, error) {
	var said struct {
		Root string `json:"root_pem"`
	}
	err := c.small(ctx, "/v1/proxy", &said)
	if e := (*runtime.Error)(nil); errors.As(err, &e) && e.Reason == runtime.ReasonNotFound {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: c.base + " lends no proxy", Hint: "on its machine: kimbap serve --proxy",
		}
	}
	return []byte(said.Root), err
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

// Borrow opens a connection that is from then on one of the other side's proxy. run
// names the run that it is for, address is where its program reaches this side.
// The connection is TCP or TLS and can be half closed.
func (c *Client) Borrow(ctx context.Context, run, address string) (net.Conn, error) {
	patient, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	conn, err := c.connect(patient)
	if err != nil {
		return nil, c.late(ctx, c.unanswered(patient, err))
	}
	defer context.AfterFunc(patient, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if err := c.upgrade(patient, conn, run, address); err != nil {
		_ = conn.Close()
		return nil, c.late(ctx, err)
	}
	return conn, nil
}

// connect opens a connection, with TLS where the URL has it.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	port := c.at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[c.at.Scheme]
	}
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(c.at.Hostname(), port))
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
func (c *Client) upgrade(ctx context.Context, conn net.Conn, run, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/proxy/connection", nil)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": upgradeTo, "Authorization": "Bearer " + c.token.Reveal(), "Kimbap-Run": run, "Kimbap-Address": address,
	} {
		r.Header.Set(name, value)
	}
	if err := r.Write(conn); err != nil {
		return c.unanswered(ctx, err)
	}
	// The proxy says nothing before it is asked, so nothing of it is read here.
	from := bufio.NewReader(io.LimitReader(conn, maxHead+maxSmall))
	answer, err := http.ReadResponse(from, r)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch {
	case answer.StatusCode != http.StatusSwitchingProtocols:
		data, _ := io.ReadAll(answer.Body)
		return refusal(answer, data)
	case answer.Header.Get("Upgrade") != upgradeTo || from.Buffered() > 0:
		return fmt.Errorf("%s does not answer as a kimbap does", c.base)
	}
	return nil
}
