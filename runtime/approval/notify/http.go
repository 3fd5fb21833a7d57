package notify

import (
	"bytes"
	"cmp"
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
)

// Secret gives a sender its key when it needs it, and refuses when the vault is
// locked or the key may not go to that authority (host:port).
type Secret func(ctx context.Context, authority string) (runtime.Secret, error)

// Dial opens a connection to host:port, guarded as every other one.
type Dial func(ctx context.Context, authority string) (net.Conn, error)

// maxAnswer is as much of an answer as is looked at, in bytes.
const maxAnswer = 64 << 10

// Client posts JSON for the senders that speak HTTP. It follows no redirect, and
// its errors name no URL, since some services put their key into it.
type Client struct{ http *http.Client }

// NewClient dials by dial and trusts what trust does.
func NewClient(dial Dial, trust *tls.Config) *Client {
	trust = trust.Clone()
	trust.NextProtos = []string{"http/1.1"} // one small message now and then
	return &Client{&http.Client{
		Transport: &http.Transport{
			DialContext:     func(ctx context.Context, _, authority string) (net.Conn, error) { return dial(ctx, authority) },
			TLSClientConfig: trust, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Authority is host:port of a URL.
func Authority(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), runtime.DefaultPort(u.Scheme)))
}

// Post sends a body and returns what was answered to it. An error is *[Refused]
// where the answer is 4xx, *[Later] where it says when.
func (c *Client) Post(ctx context.Context, target *url.URL, body []byte, header http.Header) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Refused{errors.New("the address is not a URL")}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "kimbap")
	resp, err := c.http.Do(req)
	if err != nil {
		var in *url.Error
		if errors.As(err, &in) {
			err = in.Err // without the URL
		}
		return nil, fmt.Errorf("%s: %w", target.Hostname(), err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: the answer broke off", target.Hostname())
	}
	return answer, judge(target.Hostname(), resp)
}

// judge makes an error of a status that is not 2xx.
func judge(host string, resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("%s answered %d %s", host, resp.StatusCode, http.StatusText(resp.StatusCode))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &Later{err, time.Duration(seconds) * time.Second}
	case resp.StatusCode == http.StatusRequestTimeout:
		return err
	}
	return &Refused{err}
}
