package runner

import (
	"slices"
	"strings"
	"testing"
)

func TestCleanTakesKeysOut(t *testing.T) {
	env := []string{
		"PATH=/bin", "KIMBAP_MASTER_KEY=m", "KIMBAP_HOME=/home/o/.kimbap",
		"GITHUB_TOKEN=ghp_real", "GH_TOKEN=ghp_kimbap", "OPENAI_API_KEY=", "URL=https://u:stored@db.example", "EQUALS=a=b",
	}
	kept, removed := clean(env, []string{"GH_TOKEN", "GITHUB_TOKEN", "OPENAI_API_KEY"},
		func(value string) bool { return strings.Contains(value, "stored") }, func(value string) bool { return value == "ghp_kimbap" })
	if want := []string{"PATH=/bin", "KIMBAP_HOME=/home/o/.kimbap", "OPENAI_API_KEY=", "EQUALS=a=b"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	if want := []string{"GITHUB_TOKEN", "URL"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
}

func TestExtendReplacesWhatWasThere(t *testing.T) {
	place := Place{Proxy: "http://127.0.0.1:1", CA: "/ca.pem", Bundle: "/bundle.pem", Settings: "/clients", Placeholders: map[string]string{"GITHUB_TOKEN": "ghp_kimbap"}}
	env := extend([]string{"HTTPS_PROXY=http://old", "HTTPS_PROXY=http://older", "SSL_CERT_FILE=/old", "HOME=/h"}, place, nil)
	for _, want := range []string{"HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "SSL_CERT_FILE=/bundle.pem", "NODE_EXTRA_CA_CERTS=/ca.pem", "GITHUB_TOKEN=ghp_kimbap", "HOME=/h",
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/bundle.pem", "WEBSOCKET_CLIENT_CA_BUNDLE=/bundle.pem", "PERL_LWP_SSL_CA_FILE=/bundle.pem", "PERL_LWP_ENV_PROXY=1", "MOJO_PROXY=1", "YARN_HTTPS_PROXY=http://127.0.0.1:1"} {
		name, _, _ := strings.Cut(want, "=")
		var got []string
		for _, pair := range env {
			if strings.HasPrefix(pair, name+"=") {
				got = append(got, pair)
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want only %q", name, got, want)
		}
	}
	if lookup(env, "GIT_CONFIG_COUNT") != "" {
		t.Error("git got settings although no host is linked")
	}
}

// Settings that the caller gives git in the same way must stay in force.
func TestGitConfigAddsToWhatIsThere(t *testing.T) {
	env := gitConfig([]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=o"}, []string{"github.com"})
	want := []string{
		"GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=o",
		"GIT_CONFIG_KEY_1=credential.https://github.com.helper", "GIT_CONFIG_VALUE_1=",
		"GIT_CONFIG_KEY_2=url.https://github.com/.insteadOf", "GIT_CONFIG_VALUE_2=git@github.com:",
		"GIT_CONFIG_KEY_3=url.https://github.com/.insteadOf", "GIT_CONFIG_VALUE_3=ssh://git@github.com/",
		"GIT_CONFIG_KEY_4=http.https://github.com/.version", "GIT_CONFIG_VALUE_4=HTTP/1.1",
		"GIT_CONFIG_COUNT=5",
	}
	if !slices.Equal(env, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(env, "\n  "), strings.Join(want, "\n  "))
	}
}
