package mcp

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"testing"
)

// A message that says that it is longer than one may be has no room among long messages: what
// comes of it is read, so that its sender hears why it is refused, and not kept.
func TestAMessageThatSaysItIsTooLongIsNotKept(t *testing.T) {
	s, err := New(whole())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, over := range []int64{1, 1 << 40} {
		body := &io.LimitedReader{R: letters{}, N: maxMessage + over}
		r := httptest.NewRequest("POST", "http://localhost/mcp", io.NopCloser(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.ContentLength = body.N
		w := httptest.NewRecorder()
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		s.Handler().ServeHTTP(w, r)
		goruntime.ReadMemStats(&after)
		if w.Code != http.StatusRequestEntityTooLarge || !bytes.Contains(w.Body.Bytes(), []byte(errLong.Error())) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if kept := after.TotalAlloc - before.TotalAlloc; kept > maxMessage/2 {
			t.Errorf("%d bytes over: %d bytes were taken", over, kept)
		}
		if left := body.N; left != max(0, maxMessage+over-maxDropped) {
			t.Errorf("%d bytes over: %d were not read", over, left)
		}
	}
}

// letters is a text without end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
