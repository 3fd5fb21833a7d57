package connector

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// noTokens are a grant and a client as people have them, and what is of no header field.
var noTokens = []string{
	`{"client_id":"CID","client_secret":"CSECRET-abcdefgh","refresh_token":"REFRESH-abcdefgh"}`,
	"\ufeff" + `{"client_id":"CID","refresh_token":"REFRESH-abcdefgh"}`,
	`[{"client_id":"CID","client_secret":"CSECRET-abcdefgh"}]`, `[]`, `{}`,
	"client_id=CID&client_secret=CSECRET-abcdefgh&refresh_token=REFRESH-abcdefgh",
	"refresh_token=REFRESH-abcdefgh", "client_secret:CSECRET", "CID&CSECRET",
	"Bearer abc", "abc def", "abc\ndef", "caf\u00e9", `"abc"`, "a,b", "a;b", "", strings.Repeat("x", longestToken+1),
}

// Where a grant belongs an access token may be stored too, and nothing else is taken for one.
func TestWhatIsNoGrantAndNoToken(t *testing.T) {
	for _, text := range noTokens {
		if IsToken(runtime.NewSecret(text)) {
			t.Errorf("%.60q is taken for a token", text)
		}
	}
	for _, text := range []string{
		"ya29.a0AfH6SMB-_x", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "00D5e000000!AQcAQH0dMHEXAMPLEzmpkb", "EAAB|123", "abc+/~==", " abc ", "a:b*c%20",
	} {
		if !IsToken(runtime.NewSecret(text)) {
			t.Errorf("%q is not taken for a token", text)
		}
	}
}

// What an earlier kimbap has stored of them does not go to an API either, and is not tried there.
func TestWhatIsNoTokenIsNotLent(t *testing.T) {
	r := newRig(t)
	auth := &runtime.Auth{Type: runtime.AuthOAuth2, Ref: "google.token"}
	for _, text := range noTokens[:len(noTokens)-2] {
		r.s.values["google.token"] = runtime.NewSecret(text)
		for name, from := range map[string]runtime.Vault{"connector": r.Connector, "trial": Still{r.s}} {
			cred, err := from.Credential(t.Context(), runtime.DefaultTenant, auth)
			e := runtime.AsError(err)
			if e == nil || e.Code != runtime.CodeNoCredential || e.Hint == "" || cred.Found() || strings.Contains(e.Msg+e.Hint, "abcdefgh") {
				t.Errorf("%s: of %q: %v, %v", name, text, cred.Found(), err)
			}
		}
	}
	bearer := &runtime.Auth{Type: runtime.AuthBearer, Ref: "google.token"}
	r.s.values["google.token"] = runtime.NewSecret("odd, but a key")
	if cred, err := r.Credential(t.Context(), runtime.DefaultTenant, bearer); err != nil || !cred.Found() {
		t.Errorf("of another service: %v", err)
	}
}
