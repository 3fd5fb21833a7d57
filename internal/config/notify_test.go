package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func loadText(t *testing.T, text string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file, nil, nil)
}

// Every type of notifier is read, and shown again in the same words.
func TestEveryNotifierIsShownAsItWasRead(t *testing.T) {
	text := "approval:\n  link: https://console.example.com/a/{id}\n  notify:\n"
	for _, keys := range notifierTypes() {
		text += "    - " + keys.example + "\n"
	}
	c, err := loadText(t, text+"    - {type: slack, webhook: notify.hook}\n")
	if err != nil || len(c.Approval.Notify) != 5 {
		t.Fatalf("%d, %v", len(c.Approval.Notify), err)
	}
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadText(t, string(shown))
	if err != nil || len(again.Approval.Notify) != 5 || again.Approval.Link != c.Approval.Link {
		t.Errorf("%v\n%s", err, shown)
	}
}

// What is wrong with one is said with its place, and without what may be a
// secret in the wrong place.
func TestAWrongNotifierIsNamedWithoutItsSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"{type: pager}":                                             "no notifier of type",
		"{type: webhook, url: https://x.test}":                      "needs secret",
		"{type: webhook, url: http://x.test/, secret: a}":           "https URL",
		"{type: webhook, url: \"http://127.0.0.1:9\", secret: a}":   "https URL",
		"{type: webhook, url: http://169.254.169.254/, secret: a}":  "https URL",
		"{type: webhook, url: \"file:///etc/passwd\", secret: a}":   "https URL",
		"{type: webhook, url: \"gopher://x.test/\", secret: a}":     "https URL",
		"{type: webhook, url: \"unix:///run/x.sock\", secret: a}":   "https URL",
		"{type: slack, token: xoxb-1-hidden, channel: C1}":          "not a name in the vault",
		"{type: slack, token: a}":                                   "token and channel, or webhook",
		"{type: slack, token: a, channel: b, webhook: c}":           "token and channel, or webhook",
		"{type: slack, token: a, channel: C1, key: hidden}":         `no key "key"`,
		"{type: telegram, token: a, chat: b, password: hidden}":     `no key "password"`,
		"{type: smtp, server: x, from: a@b, to: [c@d]}":             "host:port",
		"{type: smtp, server: \"x:25\", from: a@b, to: c@d}":        "to is a list",
		"{type: smtp, server: \"x:25\", from: a, to: [b], user: c}": "go together",
		"{type: smtp, server: \"x:25\", from: a, to: [b], tls: no}": "tls",
		"{type: slack, type: slack}":                                "stands twice",
		"slack":                                                     "cannot be text",
	} {
		_, err := loadText(t, "approval: {notify: ["+text+"]}\n")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ":1:") {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error quotes the value: %v", text, err)
		}
	}
	for _, text := range []string{"approval: {notify: slack}", "approval: {link: console}", "approval: {link: \"https://x.test/a\"}"} {
		if _, err := loadText(t, text+"\n"); err == nil {
			t.Errorf("%s: taken", text)
		}
	}
}
