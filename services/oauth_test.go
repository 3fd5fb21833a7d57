package services

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const oauthFile = `name: mail
version: 1.0.0
base_url: https://mail.test
auth:
  type: oauth2
  credential_ref: mail.token
  oauth2:
    authorize_url: https://login.test/authorize?hd=a.test
    token_url: https://login.test/token
    scopes: [read, "https://login.test/scope/write"]
    params: {access_type: offline}
actions: {get: {description: x, method: GET, path: /a, risk: {level: low}}}
`

func TestOAuthOfAService(t *testing.T) {
	t.Parallel()
	s, err := Parse("mail.yaml", []byte(oauthFile))
	if err != nil {
		t.Fatal(err)
	}
	want := &runtime.OAuth{
		AuthorizeURL: "https://login.test/authorize?hd=a.test", TokenURL: "https://login.test/token", Scopes: []string{"read", "https://login.test/scope/write"},
		ClientAuth: "basic", Params: []runtime.Pair{{Name: "access_type", Text: "offline"}},
	}
	issued, err := Parse("mail.yaml", []byte(strings.Replace(oauthFile, "    scopes:", "    issuer: https://login.test\n    scopes:", 1)))
	if err != nil || issued.Auth.OAuth.Issuer != "https://login.test" {
		t.Errorf("%+v %v", issued, err)
	}
	if s.Auth.Type != runtime.AuthOAuth2 || s.Auth.Ref != "mail.token" || !reflect.DeepEqual(s.Auth.OAuth, want) {
		t.Errorf("%+v %+v", s.Auth, s.Auth.OAuth)
	}
}

const clientFile = `name: fleet
version: 1.0.0
base_url: https://fleet.test
auth:
  type: oauth2
  credential_ref: fleet.token
  oauth2:
    grant: client_credentials
    token_url: https://login.test/token
    client_auth: post
    scopes: [read]
    params: {audience: "https://fleet.test/"}
actions: {get: {description: x, method: GET, path: /a, risk: {level: low}}}
`

func TestOAuthOfAClientItself(t *testing.T) {
	t.Parallel()
	s, err := Parse("fleet.yaml", []byte(clientFile))
	if err != nil {
		t.Fatal(err)
	}
	want := &runtime.OAuth{
		Grant: runtime.GrantClientCredentials, TokenURL: "https://login.test/token", Scopes: []string{"read"},
		ClientAuth: "post", Params: []runtime.Pair{{Name: "audience", Text: "https://fleet.test/"}},
	}
	if !reflect.DeepEqual(s.Auth.OAuth, want) {
		t.Errorf("%+v", s.Auth.OAuth)
	}
	if _, err := Parse("fleet.yaml", []byte(strings.Replace(clientFile, "    scopes: [read]\n    params: {audience: \"https://fleet.test/\"}\n", "", 1))); err != nil {
		t.Errorf("without scopes: %v", err)
	}
	_, err = Parse("fleet.yaml", []byte(strings.Replace(clientFile, "client_credentials", "client_credential", 1)))
	if err == nil || !strings.Contains(err.Error(), "client_credentials") || strings.Contains(err.Error(), "no place where a person signs in") {
		t.Errorf("misspelt: %v", err)
	}
	for from, to := range map[string]string{
		"    token_url: https://login.test/token\n": "",
		"token_url: https://":                       "token_url: http://",
		"token_url: https://login.test/":            "token_url: https://login.test/?client_secret=a#",
		"    scopes":                                "    authorize_url: https://login.test/authorize\n    scopes",
		"    client_auth":                           "    device_url: https://login.test/device\n    client_auth",
		"    params":                                "    issuer: https://login.test\n    params",
		"client_credentials":                        "password",
		"grant: client_credentials":                 "grant: authorization_code",
		"    grant: client_credentials\n":           "",
		"{audience:":                                "{grant_type: password, x:",
		"{audience: ":                               "{client_secret: ",
		"{audience":                                 "{scope",
		"{aud":                                      "{client_assertion: a, aud",
	} {
		text := strings.Replace(clientFile, from, to, 1)
		if text == clientFile {
			t.Fatalf("the file has no %q", from)
		}
		if s, err := Parse("fleet.yaml", []byte(text)); err == nil {
			t.Errorf("%q: it is taken, with %+v", to, s.Auth.OAuth)
		}
	}
}

// SS-018: a provider is reached over TLS, or on this machine, and by no other way; and no file
// sets what kimbap itself says of a sign-in.
func TestSS018WhereAGrantMayComeFrom(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{
		"token_url: https://login.test/token":       "token_url: http://login.test/token",
		"token_url: https://login.test":             "token_url: file:///etc/passwd #",
		"token_url: https":                          "token_url: gopher",
		"token_url: https://login.test/":            "token_url: unix:///run/docker.sock #",
		"token_url: https://":                       "token_url: https://user:pass@",
		"https://login.test/authorize":              "javascript:alert(1)//",
		"authorize?hd=a.test":                       "authorize?redirect_uri=https://evil.test",
		"?hd=a.test":                                "?hd=a.test&code_challenge_method=plain",
		"{access_type: offline":                     "{request_uri: https://evil.test/r",
		"access_type: offline":                      "redirect_uri: https://evil.test",
		"{access_type: offline}":                    "{code_challenge_method: plain}",
		"[read,":                                    `["read write",`,
		"    token_url: https://login.test/token\n": "",
		"    scopes:":                               "    issuer: http://login.test\n    scopes:",
		"    scopes: ":                              "    issuer: https://login.test?a=b\n    scopes: ",
		"    scopes: [":                             "    issuer: https://login.test/#a\n    scopes: [",
		"    authorize_url: https://login.test/authorize?hd=a.test":   "    issuer: https://login.test\n    device_url: https://login.test/d",
		"    authorize_url: https://login.test/authorize?hd=a.test\n": "",
	} {
		text := strings.Replace(oauthFile, from, to, 1)
		if text == oauthFile {
			t.Fatalf("the file has no %q", from)
		}
		if s, err := Parse("mail.yaml", []byte(text)); err == nil {
			t.Errorf("%q: it is taken, with %+v", to, s.Auth.OAuth)
		}
	}
	for _, loopback := range []string{"http://127.0.0.1:8080/token", "http://localhost:8080/token", "http://[::1]:8080/token"} {
		if _, err := Parse("mail.yaml", []byte(strings.Replace(oauthFile, "https://login.test/token", loopback, 1))); err != nil {
			t.Errorf("%s: %v", loopback, err)
		}
	}
}
