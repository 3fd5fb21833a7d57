package sink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

const token = "collector-token-1234"

func poster(t *testing.T, o sink.PosterOptions) *sink.Poster {
	t.Helper()
	p, err := sink.NewPoster(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestPostSendsTheBodyOverVerifiedTLS(t *testing.T) {
	var got *http.Request
	var body []byte
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = w.Write([]byte("taken"))
	}))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	o := sink.PosterOptions{URL: srv.URL + "/in?key=hidden", Token: runtime.NewSecret(token), TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	p := poster(t, o)
	answer, err := p.Post(t.Context(), http.Header{"Content-Type": {"text/x"}}, []byte("lines"))
	if err != nil || string(answer) != "taken" || string(body) != "lines" {
		t.Fatalf("%q, %v, the server got %q", answer, err, body)
	}
	if got.Method != "POST" || got.URL.RequestURI() != "/in?key=hidden" || got.Header.Get("Authorization") != "Bearer "+token || got.Header.Get("Content-Type") != "text/x" {
		t.Errorf("%s %s %v", got.Method, got.URL, got.Header)
	}
	if strings.Contains(p.Host(), "hidden") {
		t.Errorf("the name shows the query: %s", p.Host())
	}
	o.TLS = nil // the system does not know this certificate
	if _, err := poster(t, o).Post(t.Context(), nil, nil); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("sent to a server that proved nothing, or shown: %v", err)
	}
}

// What an answer means for the lines: they come again, later, or never.
func TestAnswersSayWhetherLinesComeAgain(t *testing.T) {
	status, after := 0, ""
	moved := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		moved = moved || r.URL.Path == "/moved"
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		if status/100 == 3 {
			w.Header().Set("Location", "/moved")
		}
		w.WriteHeader(status)
	}))
	defer srv.Close()
	p := poster(t, sink.PosterOptions{URL: srv.URL, Token: runtime.NewSecret(token)})
	for _, c := range []struct {
		status int
		after  string
		want   string
		pause  time.Duration
	}{
		{200, "", "", 0}, {204, "", "", 0}, {307, "", "refused", 0}, {400, "", "refused", 0}, {401, "", "refused", 0}, {413, "", "refused", 0},
		{408, "", "later", 0}, {429, "7", "later", 7 * time.Second}, {503, "900", "later", 0}, {500, "x", "later", 0},
	} {
		status, after = c.status, c.after
		_, err := p.Post(t.Context(), nil, []byte("x"))
		refused, later, got, pause := (*outlet.Refused)(nil), (*outlet.Later)(nil), "", time.Duration(0)
		switch {
		case errors.As(err, &refused):
			got = "refused"
		case errors.As(err, &later):
			got, pause = "later", later.After
		case err != nil:
			got = err.Error()
		}
		if got != c.want || pause != c.pause {
			t.Errorf("%d: %q after %v, want %q after %v", c.status, got, pause, c.want, c.pause)
		}
	}
	if moved {
		t.Error("a redirect was followed with the token")
	}
	srv.Close()
	if _, err := p.Post(t.Context(), nil, nil); err == nil {
		t.Error("posted to nobody")
	}
}

func TestAPlaceThatDoesNotAnswerIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	p := poster(t, sink.PosterOptions{URL: srv.URL, Timeout: 30 * time.Millisecond})
	if _, err := p.Post(t.Context(), nil, nil); err == nil {
		t.Error("it answered")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Post(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestPosterOptions(t *testing.T) {
	for _, u := range []string{"", "ftp://x", "https://", "http://user:hunter2@x/", "://hunter2"} {
		if _, err := sink.NewPoster(sink.PosterOptions{URL: u}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", u, err)
		}
	}
}
