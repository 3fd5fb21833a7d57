package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A placeholder is refused where it is the name of a field, or stands in one, as it is
// where it is a value: names have no case, and some clients write all in small letters.
func TestAPlaceholderAsANameDoesNotLeave(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		p := newPairing(t, h2, h2)
		for _, name := range []string{apptest.Fake, "X-" + strings.ToUpper(apptest.Fake), "x-" + apptest.Fake + "-y", "X-Notes%5Fkimbap"} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.notes.test/notes/1", nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Header[name] = []string{"1"}
			a, err := p.client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Body.Close()
			if said := a.Header.Get("Kimbap-Error"); a.StatusCode != http.StatusForbidden || !strings.Contains(said, "placeholder") || a.Proto != p.proto {
				t.Errorf("%s over %s: %d %q", name, a.Proto, a.StatusCode, said)
			}
		}
		if n := p.Up.Received() + int64(p.overH2.Load()); n > 0 {
			t.Errorf("HTTP/2 %v: something left", h2)
		}
	}
}

// albums has the key of notes, as the services of Google share one, and no placeholder.
const albums = `name: albums
version: 1.0.0
description: Albums, for tests
base_url: https://api.notes.test/albums
auth: {type: bearer, credential_ref: notes.token}
actions:
  get-album: {description: Read one, method: GET, path: "/{id:int}", idempotent: true, risk: {level: low}, args: [{name: id, type: integer, required: true}]}
`

// A program has one variable for all services of one key, and sends its placeholder to each.
func TestServicesOfOneKeyTakeOnePlaceholder(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, albums}})
	a := k.Tunnel(t, apptest.Authority).
		Ask("GET /albums/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\nAuthorization: Bearer " + apptest.Fake + "\r\n\r\n")
	if a.Problem.Code != "" || k.Up.Received() == 0 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if got := k.Up.Last(t).Fields("Authorization"); len(got) != 1 || got[0] != "Bearer "+apptest.Key {
		t.Errorf("%q", got)
	}
}
