package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// The limits of what an operator has fetched, and of the wait for it.
const (
	mostHops  = 3
	fetchTime = time.Minute
)

// IsURL reports whether a place is an address and not a path.
func IsURL(from string) bool {
	u, err := url.Parse(from)
	return err == nil && len(u.Scheme) > 1 && u.Host != ""
}

// fetch gets a file that the operator named by https, of at most so many bytes.
// It dials through the guard like everything else, sends nothing of ours, and
// follows redirects to https only.
func (k Keeper) fetch(ctx context.Context, from string, most int64) ([]byte, error) {
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "https" || u.User != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInsecureScheme, Msg: "files are fetched by https only",
			Hint: "write https://HOST/PATH, without a user",
		}
	}
	trust, err := k.Trust()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, authority string) (net.Conn, error) {
			return k.Dial(ctx, authority)
		},
		TLSClientConfig: trust, DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" || r.URL.User != nil || len(via) > mostHops {
			return errors.New("it leads to another place than https, or too often to another")
		}
		r.Header.Del("Referer") // a signed address is nobody else's to know
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "kimbap")
	answer, err := client.Do(req)
	if err != nil {
		return nil, notFetched(u, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, notFetched(u, fmt.Errorf("it answered %d", answer.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %d KiB", most>>10)
	}
	if err != nil {
		return nil, notFetched(u, err)
	}
	return data, nil
}

func notFetched(u *url.URL, err error) error {
	var e *runtime.Error
	if errors.As(err, &e) {
		return e
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	code := runtime.CodeUpstream
	if errors.Is(err, context.DeadlineExceeded) {
		code = runtime.CodeTimeout
	}
	return &runtime.Error{
		Code: code, Msg: fmt.Sprintf("%s cannot be fetched: %s", u.Redacted(), runtime.Said(err)),
		Hint: "download the file, read it, then give its path instead",
	}
}
