package policy_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/policy"
)

// The log of a check of a stranger's pull request is the stranger's to read, and the policy in
// it may be a link to a key.
func TestAFileThatIsNoPolicyIsNotQuoted(t *testing.T) {
	for _, text := range []string{"c2VjcmV0LW1hc3Rlci1rZXk=\n", "A_TOKEN=c2VjcmV0\nB_TOKEN=c2VjcmV0: x\n\tC: c2VjcmV0\n", "'c2VjcmV0\n"} {
		_, err := policy.Compile(nil, policy.File{Name: "policy.yaml", Data: []byte(text)})
		_, cases := policy.ParseCases("policy.yaml", []byte(text))
		for _, err := range []error{err, cases} {
			if err == nil || !strings.HasPrefix(err.Error(), "policy.yaml:") || strings.Contains(err.Error(), "c2Vj") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if _, err := policy.Compile(nil, policy.File{Name: "policy.yaml", Data: []byte("version: 1\nrules: [\n")}); err == nil || !strings.Contains(err.Error(), "\n  rules: [\n") && !strings.Contains(err.Error(), "^") {
		t.Errorf("a policy is not quoted: %v", err)
	}
}
