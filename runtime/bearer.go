package runtime

import (
	"encoding/base64"
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

// AppendReadings adds the ways a value can carry a token: as it is, after its
// prefix or scheme, and as the user or password of Basic.
func AppendReadings(out []string, value, prefix string) []string {
	out = append(out, value)
	if prefix != "" {
		if rest, ok := strings.CutPrefix(value, prefix); ok {
			out = append(out, rest)
		}
	}
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok {
		return out
	}
	rest = strings.Trim(rest, " ")
	out = append(out, rest)
	if strings.EqualFold(scheme, "Basic") {
		if user, password, ok := basicParts(rest); ok {
			out = append(out, user, password)
		}
	}
	return out
}

func basicParts(text string) (user, password string, ok bool) {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return "", "", false
	}
	user, password, _ = strings.Cut(string(plain), ":")
	return user, password, true
}
