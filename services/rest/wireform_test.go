package rest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// latin1 answers the fields of a request in JSON, with each of their bytes as one character, as
// Python, Java and Node read them; and with no blanks around a value, as all do.
func latin1(c *servicestest.Conn, r *servicestest.Request) bool {
	read := map[string]string{}
	for name, list := range r.Header {
		var text strings.Builder
		for _, b := range []byte(strings.Trim(list[0], " \t")) {
			text.WriteRune(rune(b))
		}
		read[name] = text.String()
	}
	body, _ := json.Marshal(read)
	return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
}

// What arrives of a stored key is another text than is stored, where it has blanks around it or
// bytes beyond ASCII: it is masked where the upstream answers it.
func TestAKeyIsMaskedAsItArrives(t *testing.T) {
	for _, key := range []string{" sp-key-abcdefgh ", "trail-abcdefgh ", "\tlead-abcdefgh", "caf\u00e9-abcdefgh", "key\xff\xfe-abcdefgh"} {
		for _, auth := range []runtime.Auth{{Type: runtime.AuthBearer}, {Type: runtime.AuthHeader, Header: "X-Key"}} {
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/": latin1}})
			call := r.call("GET", "/")
			call.Action.Auth, call.Credential.Value = &auth, runtime.NewSecret(key)
			answer, result := r.must(t, call)
			if strings.Contains(answer.Body, "abcdefgh") || !strings.Contains(answer.Body, "****") || result.Scrubbed != 1 {
				t.Errorf("%q, %s: %d hits in %s", key, auth.Type, result.Scrubbed, answer.Body)
			}
		}
	}
}
