package services_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// What a file calls a placeholder is exported into the shell of whoever links the service,
// and into every program of kimbap run.
func TestAPlaceholderIsTheVariableOfAKey(t *testing.T) {
	file := func(name string) []byte {
		return []byte("name: shop\nversion: 1.0.0\nbase_url: https://shop.test\nauth: {type: bearer, credential_ref: shop.token}\n" +
			"placeholders: {" + name + ": shop_kimbap}\nactions: {read: {method: GET, path: /**, risk: {level: low}}}\n")
	}
	for _, name := range []string{
		"SHOP_TOKEN", "TOKEN", "SHOP_API_KEY", "SHOP_ACCESS_KEY_ID", "SHOP_SECRET", "SHOP_PASSWORD", "SHOP_PASS", "SHOP_PAT", "SHOP_AUTH", "_TOKEN", "NODE_AUTH_TOKEN",
	} {
		if _, err := services.Parse("shop.yaml", file(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "BASH_ENV", "PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_KEY_0",
		"SSH_AUTH_SOCK", "EDITOR", "PATH", "HOME", "HTTPS_PROXY", "SSL_CERT_FILE", "SSLKEYLOGFILE", "GOOGLE_APPLICATION_CREDENTIALS", "OPENAI_BASE_URL",
		"KIMBAP_HOME", "KIMBAP_TOKEN", "MONKEY", "KEY_ID_FILE", "_",
	} {
		_, err := services.Parse("shop.yaml", file(name))
		if err == nil || !strings.Contains(err.Error(), "shop.yaml:5:16: placeholders."+name+": a variable that holds a key ends in _TOKEN, ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
