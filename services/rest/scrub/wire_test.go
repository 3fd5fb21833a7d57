package scrub

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// A key that was stored with blanks around it arrives without them in a header field, and with
// them in a query or in base64: what is left of either is blanks.
func TestAKeyIsFoundAsHTTPBringsIt(t *testing.T) {
	for _, secret := range []string{" sp-key-abcdefgh", "trail-abcdefgh ", "\tsp-key-abcdefgh \t"} {
		arrives := strings.Trim(secret, " \t")
		quoted, _ := json.Marshal(secret)
		for name, text := range map[string]string{
			"bare": arrives, "stored": secret, "query": url.QueryEscape(secret), "json": string(quoted),
		} {
			out := []byte(text)
			if n := New(secret, "", "").Mask(out); n != 1 || strings.Contains(string(out), "abcdefgh") {
				t.Errorf("%q, %s: %d found, left %s", secret, name, n, out)
			}
		}
		for lead := range 3 {
			for _, of := range []string{arrives, secret} {
				text := base64.StdEncoding.EncodeToString([]byte("user:"[:lead] + of + "."))
				if New(secret, "", "").Mask([]byte(text)) != 1 {
					t.Errorf("%q: not found in %s", secret, text)
				}
			}
		}
		if !New(secret, "", "").InName("x-" + arrives) {
			t.Errorf("%q is not found in a field name", secret)
		}
	}
	for _, secret := range []string{"  a  ", "    "} { // what is left would be found anywhere
		if m := New(secret, "", ""); m == nil || m.Mask([]byte("x"+secret+"y")) != 1 || m.Mask([]byte("banana")) != 0 {
			t.Errorf("%q is not looked for as it is", secret)
		}
	}
}

// A server that reads fields in Latin-1 answers each byte beyond ASCII as a character.
func TestAKeyIsFoundAsItIsReadInLatin1(t *testing.T) {
	for secret, spellings := range map[string][]string{
		"caf\u00e9-abcdefgh": {
			"caf\u00c3\u00a9-abcdefgh", `caf\u00c3\u00a9-abcdefgh`, `caf\u00C3\u00A9-abcdefgh`, "caf%C3%83%C2%A9-abcdefgh", "caf\u00e9-abcdefgh", `caf\u00e9-abcdefgh`,
		},
		"key\xff\xfe-abcdefgh": {"key\u00ff\u00fe-abcdefgh", `key\u00ff\u00fe-abcdefgh`, "key%C3%BF%C3%BE-abcdefgh", "key\xff\xfe-abcdefgh"},
	} {
		m := New(secret, "", "")
		for _, spelling := range spellings {
			if text := []byte("=" + spelling + "&"); m.Mask(text) != 1 || strings.Trim(string(text), "=&*") != "" {
				t.Errorf("of %q, in the answer as %s, there is left %s", secret, spelling, text)
			}
		}
		user := New("another-secret", "", secret)
		if text := []byte(spellings[1]); user.Mask(text) != 1 {
			t.Errorf("a user name %q is left as %s", secret, text)
		}
	}
}
