package runtime

import (
	"net/http"
	"strings"
)

// Bearer is the token that a request shows in its Authorization field (RFC 6750 section 2.1),
// empty where there is no such field. A field that shows none, as with another scheme or a
// variable that is not set, is an error, CodeUnauthenticated: who meant to show a token may
// not have the rights of those who need none.
func Bearer(h http.Header) (Secret, error) {
	shown := h["Authorization"]
	if len(shown) == 0 {
		return Secret{}, nil
	}
	scheme, token, _ := strings.Cut(shown[0], " ")
	token = strings.TrimSpace(token)
	wrong := ""
	switch {
	case len(shown) > 1:
		wrong = "the request has more than one Authorization field"
	case !strings.EqualFold(scheme, "Bearer"):
		wrong = "the Authorization field has another scheme than Bearer"
	case token == "":
		wrong = "the Authorization field has no token behind Bearer"
	default:
		return NewSecret(token), nil
	}
	return Secret{}, &Error{
		Code: CodeUnauthenticated, Reason: ReasonNoToken, Stage: StageIdentify, Msg: wrong, Hint: "send Authorization: Bearer TOKEN",
	}
}
