package connector

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// GitHub answers 200 and a code of its own where a refresh token is of no use any more: the
// grant is over, and GitHub is not asked again.
func TestARefreshTokenThatGitHubCallsBad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(2 * time.Hour)
	r.p.answer(http.StatusOK, `{"error":"bad_refresh_token","error_description":"The refresh token passed is incorrect or expired."}`)
	for range 3 {
		if _, err := use(t, r.Connector); err == nil || err.Code != runtime.CodeNoCredential {
			t.Fatalf("%v", err)
		}
		r.now.Advance(time.Minute)
	}
	if r.p.requests() != 1 || r.s.stored(t).Over == "" {
		t.Errorf("asked %d times", r.p.requests())
	}
}

// A provider that does not know the client any more, as after its secret was renewed, will not
// give a token in a moment: whoever asks is told what helps.
func TestAClientThatAProviderDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"invalid_client", "unauthorized_client", "incorrect_client_credentials"} {
		r := newRig(t)
		r.now.Advance(2 * time.Hour)
		r.p.answer(http.StatusUnauthorized, `{"error":"`+code+`","error_description":"words of the provider"}`)
		_, err := use(t, r.Connector)
		if err == nil || err.Code != runtime.CodeUpstream || !strings.Contains(err.Hint, "kimbap link SERVICE --client FILE") || strings.Contains(err.Error()+err.Hint, "words") {
			t.Errorf("%s: %+v", code, err)
		}
		if r.s.stored(t).Over != "" {
			t.Errorf("%s: the grant is given up, though its client may be mended at the provider", code)
		}
	}
}

// GitHub and Slack part the scopes that they grant by commas. They are asked for as single ones
// at the next sign-in, unless scopes with commas were asked for.
func TestScopesThatAreGrantedWithCommas(t *testing.T) {
	t.Parallel()
	for granted, want := range map[string]string{"repo,gist": "repo gist", "repo, gist": "repo gist", "repo gist": "repo gist", ",": "read"} {
		r := newRig(t)
		r.s.set(t, &Grant{TokenURL: r.p.URL + "/token", RefreshToken: "refresh-token-zero", Scopes: []string{"read"}}, 2)
		r.p.answer(http.StatusOK, `{"access_token":"t","scope":"`+granted+`"}`)
		r.uses(t, "t")
		if got := strings.Join(r.s.stored(t).Scopes, " "); got != want {
			t.Errorf("%s: %s", granted, got)
		}
	}
	r := newRig(t)
	r.s.set(t, &Grant{TokenURL: r.p.URL + "/token", RefreshToken: "refresh-token-zero", Scopes: []string{"mail:a,b"}}, 2)
	r.p.answer(http.StatusOK, `{"access_token":"t","scope":"mail:a,b"}`)
	r.uses(t, "t")
	if got := r.s.stored(t).Scopes; len(got) != 1 || got[0] != "mail:a,b" {
		t.Errorf("%q", got)
	}
}
