package wrap_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

const transitToken = "hvs.canary-token"

// transit speaks what kimbap uses of the transit engine's API, over TLS.
type transit struct {
	*httptest.Server
	ca string

	mu     sync.Mutex
	kept   map[string]string // ciphertext → plaintext, both as they are on the wire
	status int               // of every answer; 0: as it should be
	moved  bool              // answers with a redirect
	says   string            // instead of an answer, with 200; "": nothing
	seen   []string
}

func startTransit(t *testing.T) *transit {
	d := &transit{kept: map[string]string{}}
	d.Server = httptest.NewTLSServer(d)
	t.Cleanup(d.Close)
	d.ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw})
	if err := os.WriteFile(d.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *transit) client(t *testing.T, change func(o *wrap.TransitOptions)) *wrap.Transit {
	t.Helper()
	o := wrap.TransitOptions{
		Address: d.URL, Mount: "transit", Key: "kimbap", Namespace: "team", Token: runtime.NewSecret(transitToken), CAFile: d.ca, Timeout: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	c, err := wrap.NewTransit(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Vault-Token"))
	var in struct{ Plaintext, Ciphertext string }
	fail := func(status int, why string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":[%q]}`, why)
	}
	switch verb, ok := strings.CutPrefix(r.URL.Path, "/v1/transit/"); {
	case d.moved:
		http.Redirect(w, r, "/v1/elsewhere", http.StatusTemporaryRedirect)
	case d.says != "":
		fmt.Fprint(w, d.says)
	case d.status != 0:
		fail(d.status, "hunter2 in an error")
	case r.Method != http.MethodPost || r.Header.Get("X-Vault-Request") != "true" || r.Header.Get("X-Vault-Namespace") != "team":
		fail(http.StatusBadRequest, "wrong form")
	case r.Header.Get("X-Vault-Token") != transitToken:
		fail(http.StatusForbidden, "permission denied")
	case !ok || json.NewDecoder(r.Body).Decode(&in) != nil:
		fail(http.StatusNotFound, "no handler for route")
	case verb == "encrypt/kimbap":
		ciphertext := "vault:v1:" + base64.StdEncoding.EncodeToString([]byte(rand.Text()))
		d.kept[ciphertext] = in.Plaintext
		_ = json.NewEncoder(w).Encode(map[string]any{"request_id": "x", "data": map[string]any{"ciphertext": ciphertext, "key_version": 1}})
	case verb == "decrypt/kimbap" && d.kept[in.Ciphertext] != "":
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"plaintext": d.kept[in.Ciphertext]}})
	case verb == "decrypt/kimbap":
		fail(http.StatusBadRequest, "invalid ciphertext: hunter2")
	default:
		fail(http.StatusNotFound, "no handler for route")
	}
}

// What a transit engine refuses is a refusal here, which says what to do and
// repeats nothing of the answer.
func TestARefusalOfTransitSaysWhatToDoAndRepeatsNothing(t *testing.T) {
	d := startTransit(t)
	key := runtime.NewSecret(strings.Repeat("ab", 32))
	for name, c := range map[string]struct {
		change func(o *wrap.TransitOptions)
		status int
		says   string
	}{
		"token":       {change: func(o *wrap.TransitOptions) { o.Token = runtime.NewSecret("hvs.other") }, says: "403"},
		"mount":       {change: func(o *wrap.TransitOptions) { o.Mount = "other" }, says: "404"},
		"key":         {change: func(o *wrap.TransitOptions) { o.Key = "other" }, says: "404"},
		"sealed":      {status: http.StatusServiceUnavailable, says: "sealed"},
		"own fault":   {status: http.StatusInternalServerError, says: "500"},
		"no trust":    {change: func(o *wrap.TransitOptions) { o.CAFile = "" }, says: "cannot be reached"},
		"unreachable": {change: func(o *wrap.TransitOptions) { o.Address = "https://127.0.0.1:1" }, says: "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			d.mu.Lock()
			d.status = c.status
			d.mu.Unlock()
			_, err := d.client(t, c.change).Wrap(t.Context(), key)
			refusedAs(t, err, runtime.ReasonKeyUnavailable)
			if err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), key.Reveal())) {
				t.Errorf("%v, want %s", err, c.says)
			}
		})
	}
	d.mu.Lock()
	d.status = 0
	d.mu.Unlock()
	_, err := d.client(t, nil).Unwrap(t.Context(), []byte("vault:v1:unknown"))
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
}

// A redirect would take the token and the key elsewhere.
func TestTransitFollowsNoRedirect(t *testing.T) {
	d := startTransit(t)
	d.moved = true
	_, err := d.client(t, nil).Wrap(t.Context(), runtime.NewSecret("key"))
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.seen) != 1 {
		t.Errorf("it was asked %d times: %v", len(d.seen), d.seen)
	}
}

// An engine that says yes and gives nothing has kept no key: what would be written in its
// place could never be opened.
func TestTransitThatGivesNothingIsRefused(t *testing.T) {
	d := startTransit(t)
	c := d.client(t, nil)
	for _, says := range []string{"{}", `{"data":null}`, `{"data":{}}`, `{"data":{"ciphertext":"","plaintext":""}}`, `{"data":{"ciphertext":"v1:x","plaintext":"%"}}`, "[]", "<html>", " "} {
		d.mu.Lock()
		d.says = says
		d.mu.Unlock()
		if wrapped, err := c.Wrap(t.Context(), runtime.NewSecret("key")); err == nil {
			t.Errorf("%s: wrapped as %q", says, wrapped)
		}
		if key, err := c.Unwrap(t.Context(), []byte("vault:v1:x")); err == nil || !key.Empty() {
			t.Errorf("%s: unwrapped (%v)", says, err)
		}
	}
}

// What cannot work is refused when it is configured.
func TestTransitNeedsAKeyATokenAndRoots(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *wrap.TransitOptions){
		"no key":                func(o *wrap.TransitOptions) { o.Key = "" },
		"no token":              func(o *wrap.TransitOptions) { o.Token = runtime.Secret{} },
		"no file of roots":      func(o *wrap.TransitOptions) { o.CAFile = empty + ".none" },
		"no roots in that file": func(o *wrap.TransitOptions) { o.CAFile = empty },
	} {
		o := wrap.TransitOptions{Address: "https://vault.example", Key: "k", Token: runtime.NewSecret("t")}
		change(&o)
		_, err := wrap.NewTransit(o)
		refusedAs(t, err, runtime.ReasonKeyUnavailable)
		if err == nil {
			t.Error(name)
		}
	}
}

func TestTransitWantsTLS(t *testing.T) {
	for address, good := range map[string]bool{
		"https://vault.example:8200": true, "http://127.0.0.1:8200": true, "http://[::1]:8200": true,
		"http://192.0.2.1:8200": false, "ftp://127.0.0.1:8200": false, "https://vault.example:8200?x=1": false,
		"http://vault.example:8200": false, "http://localhost.example": false, "vault.example": false, "": false, "https://": false, "https:///v1": false, "https:8200": false, "https://u:p@vault.example": false,
	} {
		_, err := wrap.NewTransit(wrap.TransitOptions{Address: address, Key: "k", Token: runtime.NewSecret("t")})
		if (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}
