package connector

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// inBubble is a rig for a bubble, which has the time of all: its provider is asked without a
// socket.
func inBubble(t *testing.T) *rig {
	t.Helper()
	p, mux := unserved()
	p.Server = &httptest.Server{URL: "https://login.test"}
	r := &rig{p: p, s: newShelf(), now: runtimetest.NewClock()}
	r.Connector = r.another(t)
	r.o.Clock, r.o.Client.Transport = time.Now, direct{mux}
	r.s.set(t, &Grant{TokenURL: p.URL + "/token", ClientID: "client-1", RefreshToken: "refresh-token-zero", AccessToken: "access-token-zero",
		Obtained: time.Now(), Expires: time.Now().Add(time.Hour)}, 1)
	t.Cleanup(func() { time.Sleep(renewal) }) // the library leaves a device's answer open, and so the client's timer
	return r
}

// direct asks a handler, until nobody waits any more.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}
