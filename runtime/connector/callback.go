package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// callbackPath is where a browser comes back to.
const callbackPath = "/callback"

// Callback is the port of this machine that a browser comes back to after a sign-in (RFC
// 8252 section 7.3). It serves that one page, and ends with the sign-in.
type Callback struct{ ln net.Listener }

// Listen opens it on 127.0.0.1; port 0 is any free one, which most providers take for a
// client of the kind "desktop" or "native".
func Listen(port int) (*Callback, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential, Msg: fmt.Sprintf("port %d of this machine cannot be listened on", port),
			Hint: "give another one with --port, as the client at the provider allows", Err: err,
		}
	}
	return &Callback{ln}, nil
}

// Redirect is the address to register at the provider.
func (c *Callback) Redirect() string { return "http://" + c.ln.Addr().String() + callbackPath }

// Addr is what is listened on.
func (c *Callback) Addr() net.Addr { return c.ln.Addr() }

// Close ends it without a sign-in.
func (c *Callback) Close() error { return c.ln.Close() }

// Wait serves until the browser comes back for a sign-in, or ctx ends, and closes. What
// comes for another sign-in is refused and changes nothing. If ctx ends while the provider
// gives the grant, that is taken.
func (c *Callback) Wait(ctx context.Context, s *SignIn) (*Grant, error) {
	ended := make(chan arrival, 1)
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if e, ends := c.answer(ctx, w, r, s); ends { // once: whoever comes after it is foreign
				ended <- e
			}
		}),
	}
	go func() { _ = server.Serve(c.ln) }()
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(last) // after the page was sent
		_ = server.Close()
	}()
	select {
	case e := <-ended:
		return e.grant, e.err
	case <-ctx.Done():
		if s.used.CompareAndSwap(false, true) { // no browser ends it any more
			return nil, ctx.Err()
		}
		select { // a grant that is being given can be given back only by who has it
		case e := <-ended:
			return e.grant, e.err
		case <-time.After(renewal):
			return nil, ctx.Err()
		}
	}
}

// is reports whether a host is this one: a browser leaves the port out where it is that of http.
func (c *Callback) is(host string) bool {
	own := c.ln.Addr().String()
	return host == own || host+":80" == own
}

// arrival is what a browser came back with at the end of a sign-in.
type arrival struct {
	grant *Grant
	err   error
}

// answer answers one request, and reports whether it was the end of the sign-in.
func (c *Callback) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, s *SignIn) (e arrival, ends bool) {
	say := func(status int, text string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text+"\n")
	}
	if !c.is(r.Host) || r.URL.Path != callbackPath || r.Method != http.MethodGet {
		say(http.StatusNotFound, "there is nothing here")
		return arrival{}, false
	}
	grant, err := s.Finish(ctx, r.URL.Query())
	switch {
	case errors.Is(err, ErrForeign):
		say(http.StatusBadRequest, "this is not of the sign-in that kimbap is waiting for; use the link that it printed")
		return arrival{}, false
	case err != nil:
		say(http.StatusBadRequest, "no grant came of it; the terminal says why")
	default:
		say(http.StatusOK, "kimbap has the grant. You can close this window.")
	}
	return arrival{grant, err}, true
}
