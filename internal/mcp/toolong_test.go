package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// untouched is a body of which nothing may be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("it is read")
	return 0, http.ErrBodyReadAfterClose
}

func (untouched) Close() error { return nil }

// A message that says that it is longer than one may be is refused before any of it is read:
// it has no room among long messages, and what came of it would be kept unbounded.
func TestAMessageThatSaysItIsTooLongIsNotRead(t *testing.T) {
	s, err := New(whole())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := httptest.NewRequest("POST", "http://localhost/mcp", untouched{t})
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.ContentLength = maxMessage + 1
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
