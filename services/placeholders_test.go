package services_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// kimbap env writes the values for shells, and not every shell has a quoting for every
// character: in cmd.exe a quotation mark and & began a command.
func TestAPlaceholderLooksLikeAToken(t *testing.T) {
	file := func(value string) []byte {
		return []byte("name: shop\nversion: 1.0.0\nbase_url: https://shop.test\nauth: {type: bearer, credential_ref: shop.token}\n" +
			"placeholders: {SHOP_TOKEN: '" + value + "'}\nactions: {read: {method: GET, path: /**, risk: {level: low}}}\n")
	}
	for _, value := range []string{"ghp_kimbap", "1234567890:kimbap", "2/1200000000000000/1200000000000001:kimbap", "u+kimbapkimbap", "a2ltYmFw.a2lt-Ym=", "shop~kimbap@eu"} {
		if _, err := services.Parse("shop.yaml", file(value)); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	for _, part := range []string{`"&calc&"`, `"`, "%PATH%", "!x!", "&", "|", "<", ">", "^", "`id`", "$(id)", "(", ";", "*", `\`, "#", ",", "{", "[", "?"} {
		_, err := services.Parse("shop.yaml", file("abcdefgh"+part))
		if err == nil || !strings.Contains(err.Error(), "shop.yaml:5:28: placeholders.SHOP_TOKEN may have letters, digits and -._~+/=:@ alone, as tokens do") {
			t.Errorf("%s: %v", part, err)
		}
	}
}

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
