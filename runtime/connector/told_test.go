package connector

import (
	"net/http"
	"net/url"
	"strconv"
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

// advises is what a person is told of a sign-in that came to nothing.
func advises(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	e := runtime.AsError(err)
	for _, w := range want {
		if text := e.Msg + " / " + e.Hint; !strings.Contains(text, w) {
			t.Errorf("%s: %q is not in: %s", what, w, text)
		}
	}
	if text := e.Msg + e.Hint; strings.Contains(text, "words") {
		t.Errorf("%s repeats the provider: %s", what, text)
	}
}

// What a provider answers to a sign-in in a browser is told with what helps against it: agreeing
// does not, where it was no person who refused.
func TestWhatHelpsAgainstARefusedSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for code, want := range map[string]string{
		"access_denied": "agree on the page", "invalid_scope": "--scope", "unauthorized_client": "authorization code", "invalid_request": "RFC 9126",
		"temporarily_unavailable": "later", "server_error": "later", "login_required": "prompt", "unheard_of": "unheard_of",
	} {
		way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
		at, _ := url.Parse(way.URL)
		_, err := way.Finish(t.Context(), url.Values{"error": {code}, "error_description": {"words"}, "state": {at.Query().Get("state")}})
		advises(t, code, err, "granted nothing: "+code, want)
		if strings.Contains(runtime.AsError(err).Hint, "agree") != (code == "access_denied") {
			t.Errorf("%s: %s", code, runtime.AsError(err).Hint)
		}
	}
}

// So is what the token endpoint answers, which may be about the client, the code, or what kimbap
// does not do.
func TestWhatHelpsAgainstARefusedCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string][]string{
		"invalid_client":     {"client_auth", "secret"},
		"invalid_grant":      {"did not take the code", "start again"},
		"use_dpop_nonce":     {"DPoP"},
		"invalid_dpop_proof": {"DPoP"},
		"redirect_mismatch":  {"redirect address"},
	} {
		r := newRig(t)
		way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
		at, _ := url.Parse(way.URL)
		r.p.answer(http.StatusBadRequest, `{"error":"`+code+`","error_description":"words"}`)
		_, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {at.Query().Get("state")}})
		advises(t, code, err, want...)
		if strings.Contains(runtime.AsError(err).Msg, "ended the grant") {
			t.Errorf("%s: there was no grant: %v", code, err)
		}
	}
	r := newRig(t)
	r.p.answer(http.StatusOK, `{"access_token":"t","token_type":"DPoP"}`)
	way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
	at, _ := url.Parse(way.URL)
	_, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {at.Query().Get("state")}})
	advises(t, "DPoP", err, "not of the type Bearer", "DPoP", "kimbap link SERVICE --token")
	gone := newRig(t)
	way = gone.Begin(gone.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
	at, _ = url.Parse(way.URL)
	gone.p.Close()
	_, err = way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {at.Query().Get("state")}})
	advises(t, "nobody there", err, "cannot be reached", "check the network")
	device := r.oauth()
	device.DeviceURL = r.p.URL + "/nowhere"
	if _, err = r.BeginOnDevice(t.Context(), device, desktop, nil); err == nil || strings.Contains(runtime.AsError(err).Hint, "redirect") {
		t.Errorf("on another device: %v", err)
	}
}

// An answer as of a wrong address sends people to the addresses of the service file too.
func TestWhatHelpsAgainstAWrongAddress(t *testing.T) {
	t.Parallel()
	for status, body := range map[int]string{http.StatusNotFound: "words", http.StatusMethodNotAllowed: "", http.StatusMovedPermanently: "", http.StatusOK: "<html>words"} {
		r := newRig(t)
		r.p.answer(status, body, "Content-Type", "text/html")
		way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
		_, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {way.state}})
		advises(t, strconv.Itoa(status), err, "check the client's id", "the addresses of auth.oauth2 in the service file")
		_, err = r.BeginAsClient(r.machine(), confidential, nil).Ask(t.Context())
		advises(t, strconv.Itoa(status), err, "the addresses of auth.oauth2 in the service file")
	}
}

// A way that is closed, an answer that is none, and one that does not come are told apart; and a
// refusal that a moment does not mend names what does.
func TestWhatHelpsAgainstARefusedRenewal(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][]string{
		"<html>words</html>":          {"answer of the token endpoint cannot be read"},
		`{"token_type":"bearer"}`:     {"answer of the token endpoint cannot be read"},
		"":                            {"token endpoint cannot be reached"},
		"silence":                     {"token endpoint did not answer in time"},
		"400 invalid_request":         {"400 invalid_request", "kimbap link SERVICE"},
		"403 invalid_token":           {"403 invalid_token", "kimbap link SERVICE"},
		"400":                         {"answered 400", "kimbap link SERVICE"},
		"200 token_revoked":           {"200 token_revoked", "kimbap link SERVICE"},
		"503":                         {"503", "in a moment"},
		"429 slow_down":               {"429", "in a moment"},
		"400 temporarily_unavailable": {"400 temporarily_unavailable", "in a moment"},
	} {
		r := newRig(t)
		r.now.Advance(2 * time.Hour)
		status, code, _ := strings.Cut(answer, " ")
		switch n, err := strconv.Atoi(status); {
		case answer == "":
			r.p.Close()
		case answer == "silence":
			r.p.wait = make(chan struct{})
			defer close(r.p.wait)
			r.o.Client.Timeout = 50 * time.Millisecond
		case err != nil:
			r.p.answer(http.StatusOK, answer, "Content-Type", "text/html")
		default:
			r.p.answer(n, `{"error":"`+code+`","error_description":"words"}`)
		}
		_, err := use(t, r.Connector)
		if err == nil {
			t.Fatalf("%s: taken", answer)
		}
		told := *err
		told.Msg += ": " + runtime.Said(err.Err)
		advises(t, answer, &told, want...)
		if lasting := strings.Contains(want[len(want)-1], "link"); lasting != strings.Contains(err.Hint, "link") {
			t.Errorf("%s: %s", answer, err.Hint)
		}
	}
}

// A person may agree to a part of what is asked for, and hears what is missing; scopes that
// providers take without naming them are not.
func TestScopesThatAreNotGranted(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{`"read write"`: "", `"read"`: "write", `"openid read"`: "write", `""`: "", "null": ""} {
		r := newRig(t)
		way := r.Begin(r.oauth(), desktop, []string{"openid", "read", "write", "offline_access"}, "http://127.0.0.1:1/callback")
		at, _ := url.Parse(way.URL)
		r.p.answer(http.StatusOK, `{"access_token":"t","scope":`+said+`}`)
		g, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {at.Query().Get("state")}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(way.Withheld(g), " "); got != want {
			t.Errorf("%s: without %q", said, got)
		}
	}
}
