package runtime_test

import (
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// The scheme of a token is a word in any case (RFC 9110 section 11.1). A field that shows
// no token is an error: its sender is nobody who needs none.
func TestBearer(t *testing.T) {
	for _, c := range []struct {
		shown []string
		token string
		known bool
	}{
		{nil, "", true},
		{[]string{"Bearer kmb_x"}, "kmb_x", true},
		{[]string{"bearer kmb_x"}, "kmb_x", true},
		{[]string{"BEARER  kmb_x "}, "kmb_x", true},
		{[]string{"Bearer "}, "", false},
		{[]string{"Bearer"}, "", false},
		{[]string{""}, "", false},
		{[]string{"kmb_x"}, "", false},
		{[]string{"Token kmb_x"}, "", false},
		{[]string{"Bearerkmb_x"}, "", false},
		{[]string{"Basic a21iX3g6"}, "", false},
		{[]string{"Bearer kmb_x", "Bearer kmb_y"}, "", false},
	} {
		token, err := runtime.Bearer(http.Header{"Authorization": c.shown})
		if token.Reveal() != c.token || (err == nil) != c.known {
			t.Errorf("%q shows %q, %v", c.shown, token.Reveal(), err)
		}
		if e := runtime.AsError(err); err != nil && (e.Code != runtime.CodeUnauthenticated || e.Reason != runtime.ReasonNoToken || e.Msg == "") {
			t.Errorf("%q: %v", c.shown, err)
		}
	}
}
