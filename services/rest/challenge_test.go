package rest

import "testing"

// What the challenges of a 401 say of a bearer token is read as RFC 9110 section 11.6.1 and RFC
// 6750 section 3 have it, and nothing that stands in a quoted string or under another scheme.
func TestTheErrorOfABearerChallenge(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		``:                             "",
		`Bearer`:                       "",
		`Bearer realm="api"`:           "",
		`Bearer error="invalid_token"`: "invalid_token",
		`bearer error=invalid_token`:   "invalid_token",
		`Bearer realm="a, b", error="invalid_token"`:               "invalid_token",
		`Bearer realm="a", Error = "invalid_token", scope="x"`:     "invalid_token",
		`Basic realm="x", Bearer error="invalid_token"`:            "invalid_token",
		`Bearer error="insufficient_scope"`:                        "insufficient_scope",
		`Bearer error="invalid_request", DPoP error="x"`:           "invalid_request",
		`Basic error="invalid_token"`:                              "",
		`Bearer realm="error=\"invalid_token\", error=x"`:          "",
		`Bearer realm="\", error=\"invalid_token"`:                 "",
		`Negotiate YWJj==, Bearer error="invalid_token"`:           "invalid_token",
		`Bearer error_description="error=invalid_token"`:           "",
		`DPoP error="invalid_token", Bearer realm="x"`:             "",
		`Bearer error="insufficient_scope", error="invalid_token"`: "invalid_token",
		`error="invalid_token"`:                                    "",
		`Bearer ,,, error="invalid_token" ,`:                       "invalid_token",
		`Bearer error="invalid_token`:                              "invalid_token",
		"Bearer\terror=\"invalid_token\"":                          "",
	} {
		if got := bearerError([]string{field}); got != want {
			t.Errorf("%s: %q, not %q", field, got, want)
		}
	}
	if got := bearerError([]string{`Basic realm="x"`, `Bearer error="invalid_token"`}); got != "invalid_token" {
		t.Errorf("in two fields: %q", got)
	}
}
