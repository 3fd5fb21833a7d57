package services_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// A stranger's pull request may have a link to a key in the place of a service file: the log of
// its check is the stranger's to read.
func TestAFileThatIsNoServiceFileIsNotQuoted(t *testing.T) {
	for what, text := range map[string]string{
		"a key":            "c2VjcmV0LW1hc3Rlci1rZXk=\n",
		"a key of SSH":     "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\nc2VjcmV1\n-----END OPENSSH PRIVATE KEY-----\n",
		"an older key":     "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,c2VjcmV0\nDEK-Info: c2VjcmV0: x\n\nc2VjcmV0\n",
		"variables":        "A_TOKEN=c2VjcmV0\nB_TOKEN=c2VjcmV0: x\n\tC: c2VjcmV0\n",
		"bytes":            "c2VjcmV0\xff\xfe\n",
		"a quote":          "'c2VjcmV0\n",
		"text with a name": "my name: [c2VjcmV0\n",
		"JSON of a key":    "{\n  \"account\": \"\",\n  \"client_id\": \"x.apps.test\",\n  \"client_secret\": \"c2VjcmV0\",\n  \"refresh_token\": \"c2VjcmV1\",\n  \"type\": \"authorized_user\"\n}\n",
		"JSON in one line": `{"accessToken":"c2VjcmV0"}`,
		"YAML of a key":    "token: c2VjcmV0\n",
		"a key with names": "{name: acme, description: mine, base_url: https://api.acme.test, api_key: c2VjcmV0}\n",
		"hosts with keys":  "version: 1\nhosts: {api.acme.test: {oauth_token: c2VjcmV0}}\n",
		"keys with a name": "users:\n- name: acme\n  token: c2VjcmV0\n",
		"broken YAML":      "users:\n  name: acme\n  token: c2VjcmV0: x\n",
		"a list":           "- c2VjcmV0\n- c2VjcmV1\n",
		"a comment":        "a: b # c2VjcmV0\n",
		"a block":          "key: |\n  c2VjcmV0\n",
		"an anchor":        "a: &c2VjcmV0 b\n",
		"a tag":            "!c2VjcmV0\n",
		"a tagged value":   "token: !c2VjcmV0\n",
		"an alias":         "*c2VjcmV0\n",
		"a value as alias": "token: *c2VjcmV0\n",
	} {
		_, err := services.Parse("acme.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "acme.yaml:") || strings.Contains(err.Error(), "c2Vj") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"name: [acme\n", "{\"name\": [acme\n", "version: 1.0.0\n\tname: acme\n", "name: acme\nversion: 1\nactons: {}\n", "name: acme\nactions: {a: b}\ntags: [a]\n", "name: !x acme\n"} {
		if _, err := services.Parse("acme.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "acme\n    ") && !strings.Contains(err.Error(), "\n    ^") {
			t.Errorf("a service file is not quoted: %v", err)
		}
	}
}
