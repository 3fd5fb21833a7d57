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
	} {
		_, err := services.Parse("acme.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "acme.yaml:") || strings.Contains(err.Error(), "c2Vj") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"name: [acme\n", "{\"name\": [acme\n", "version: 1.0.0\n\tname: acme\n"} {
		if _, err := services.Parse("acme.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "acme\n    ") && !strings.Contains(err.Error(), "\n    ^") {
			t.Errorf("a service file is not quoted: %v", err)
		}
	}
}
