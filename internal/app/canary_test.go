package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A credential leaves for its upstream and is nowhere else: not in an answer,
// not in the home, not in a log at trace level, in no common encoding. So it is
// with a token of ours and with a key that the program sent by itself.
func TestSecretsAreNowhereElse(t *testing.T) {
	t.Parallel()
	const canary = `cAn4ry/"stored"+5e0d9b7c=%z`
	const callers = "sk-callers-own-91be02aa"
	k := apptest.New(t, apptest.Options{Policy: askWrites, Unlinked: true, Serve: app.ServeOptions{RequireToken: true}})
	person := k.Open(t, "")
	if _, _, err := person.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(canary), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	secret, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "canary", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	token := secret.Reveal()
	var told strings.Builder
	for _, request := range canaryRequests() {
		w := k.Tunnel(t, apptest.Authority, "Proxy-Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+token)))
		line, body, _ := strings.Cut(request, "\n")
		_, err := w.Write([]byte(line + " HTTP/1.1\r\nHost: " + apptest.Host + "\r\nAuthorization: Bearer " + callers + "\r\n" + strings.ReplaceAll(body, "\n", "\r\n") + "\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		hearOut(w, &told)
		_ = w.Close()
	}
	if !strings.Contains(told.String(), "HTTP/1.1 200") || !strings.Contains(told.String(), "approval_pending") || !strings.Contains(told.String(), "101 Switching") {
		t.Fatalf("the scenario did not happen:\n%s", told.String())
	}
	if _, a := k.Connect(t, apptest.Authority, "Proxy-Authorization: Bearer "+token+"x"); a.Status != 407 {
		t.Errorf("%d", a.Status)
	} else {
		told.WriteString(a.Body)
	}
	arrived := false
	for _, r := range k.Up.Requests() {
		arrived = arrived || r.Header.Get("Authorization") == "Bearer "+canary
		if strings.Contains(string(r.Head), callers) || strings.Contains(string(r.Head), token) {
			t.Errorf("the upstream got what is not for it:\n%s", r.Head)
		}
	}
	if !arrived {
		t.Error("the credential did not arrive")
	}
	apptest.Eventually(t, "an end for every intent", func() bool {
		ends := map[string]int{}
		for _, r := range k.Requests(t, nil) {
			ends[r.Kind]++
		}
		return ends["intent"] > 0 && ends["intent"] == ends["outcome"]
	})
	places := map[string]string{"what clients were told": told.String(), "the log": k.Log.String()}
	addFiles(t, places, k.Dir)
	for place, text := range places {
		for name, value := range map[string]string{"the stored credential": canary, "the token": token, "the caller's own key": callers} {
			if form, found := leaked(text, value); found {
				t.Errorf("%s is in %s as %s", name, place, form)
			}
		}
	}
}

// hearOut writes down all that comes: the answer, and what follows it soon.
func hearOut(w *apptest.Wire, told *strings.Builder) {
	raw := bufio.NewReader(io.TeeReader(w, told)) // with the patience of its tunnel
	for {
		res, err := http.ReadResponse(raw, nil)
		if err != nil || res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if res.StatusCode >= http.StatusOK {
			_, _ = io.Copy(io.Discard, res.Body)
			break
		}
	}
	_ = w.SetDeadline(time.Now().Add(300 * time.Millisecond))
	_, _ = io.Copy(io.Discard, raw)
}

// canaryRequests are requests whose answers try to give the credential back,
// and some that have none.
func canaryRequests() []string {
	out := []string{
		"GET /notes/1", "GET /401-once", "GET /429", "GET /garbage", "GET /cut", "GET /trailers", "GET /a/b/c", "GET /../x",
		"POST /keys\nContent-Type: application/json\nContent-Length: 2\n\n{}", "POST /notes\nContent-Type: application/json\nContent-Length: 12\n\n{\"text\":\"x\"}",
		"GET /ws\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	}
	for _, how := range []string{"", "as=base64", "as=hex", "as=percent", "as=gzip", "as=deflate", "as=chunked", "split=1", "split=7", "in=header", "in=location", "in=cookie", "in=reason", "in=trailer", "in=early", "in=malformed"} {
		out = append(out, "GET /reflect?"+how)
	}
	return out
}

// leaked looks for a value in the forms that programs give to values.
func leaked(text, value string) (form string, found bool) {
	quoted := strings.NewReplacer(`"`, `\"`, "/", `\/`)
	forms := map[string]string{
		"it is": value, "hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"a query": url.QueryEscape(value), "a path": url.PathEscape(value), "JSON": quoted.Replace(value), "JSON with plain slashes": strings.ReplaceAll(value, `"`, `\"`),
	}
	for shift := range 3 { // base64 of a text around it
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", shift) + value))
		forms["base64"+strings.Repeat("+", shift)] = whole[(shift*8+5)/6 : len(whole)-2]
	}
	for form, coded := range forms {
		if strings.Contains(text, coded) || strings.Contains(text, strings.NewReplacer("+", "-", "/", "_").Replace(coded)) {
			return form, true
		}
	}
	return "", false
}

func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	const value = `cAn4ry/"x"+%z`
	for _, text := range []string{
		value, hex.EncodeToString([]byte(value)), url.QueryEscape("a=" + value), `cAn4ry\/\"x\"+%z`,
		base64.StdEncoding.EncodeToString([]byte("x:" + value)), base64.URLEncoding.EncodeToString([]byte("Bearer " + value + " more")), base64.RawStdEncoding.EncodeToString([]byte(" " + value)),
	} {
		if _, found := leaked("before "+text+" after", value); !found {
			t.Errorf("not found: %s", text)
		}
	}
}
