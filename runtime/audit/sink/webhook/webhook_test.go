package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/webhook"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

func TestLinesArePostedAsTheyAre(t *testing.T) {
	var body []byte
	var fields http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fields = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	defer srv.Close()
	poster, err := sink.NewPoster(sink.PosterOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.New(poster, true)
	if err != nil || !s.Required() || s.Name() != "webhook:"+poster.Host() {
		t.Fatalf("%v, %v", s, err)
	}
	if err := s.Write(t.Context(), "proxy-2", [][]byte{[]byte("{\"seq\":1}\n"), []byte("{\"seq\":2}\n")}); err != nil {
		t.Fatal(err)
	}
	if string(body) != "{\"seq\":1}\n{\"seq\":2}\n" || fields.Get("Content-Type") != "application/x-ndjson" || fields.Get("Kimbap-Audit-Slot") != "proxy-2" {
		t.Errorf("got %q, %v", body, fields)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	srv.Close()
	if s.Write(t.Context(), "proxy", [][]byte{[]byte("x\n")}) == nil {
		t.Error("posted to nobody")
	}
	if _, err := webhook.New(nil, false); err == nil {
		t.Error("no poster")
	}
}
