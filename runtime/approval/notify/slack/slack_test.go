package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/notifytest"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/slack"
)

const (
	token = "xoxb-test-7d31"
	hook  = "https://hooks.slack.com/services/T0/B0/xyz-7d31"
)

func secret(value, authority string) notify.Secret {
	return func(_ context.Context, to string) (runtime.Secret, error) {
		if to != "" && to != authority {
			return runtime.Secret{}, errors.New("not for " + to)
		}
		return runtime.NewSecret(value), nil
	}
}

func bot(t *testing.T, h *notifytest.HTTP) *slack.Sender {
	t.Helper()
	client := notify.NewClient(h.Dial, h.Trust)
	t.Cleanup(client.Close)
	s, err := slack.New(slack.Options{
		Client: client, API: &url.URL{Scheme: "https", Host: "slack.com", Path: "/api/chat.postMessage"},
		Token: secret(token, "slack.com:443"), Channel: "C0123",
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func saying(status int, body string) func(int, notifytest.Request) (int, http.Header, string) {
	return func(int, notifytest.Request) (int, http.Header, string) {
		return status, http.Header{"Content-Type": {"application/json"}, "Retry-After": {"30"}}, body
	}
}

// The request is the one that chat.postMessage wants, and nothing in the text is
// read as a mention, a link or formatting.
func TestBotPosts_AP009(t *testing.T) {
	h := notifytest.NewHTTP(t, saying(200, `{"ok":true,"channel":"C0123","ts":"1.2"}`))
	m := notify.Message{ID: "m", Subject: "kimbap: <!channel> & *x*", Lines: []string{"<https://evil.test|ok> `a` <@U1>", strings.Repeat("ü", 5000)}, Link: "https://c.test/1"}
	if err := bot(t, h).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := h.Requests()[0]
	if got.Method != "POST" || got.Host != "slack.com" || got.Path != "/api/chat.postMessage" || got.Header.Get("Authorization") != "Bearer "+token ||
		!strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%+v", got)
	}
	var body struct {
		Channel, Text, Parse string
		Mrkdwn               *bool
		Unfurl               *bool `json:"unfurl_links"`
		Blocks               []struct {
			Type string
			Text struct{ Type, Text string }
		}
	}
	if err := json.Unmarshal(got.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.Channel != "C0123" || body.Text != "kimbap: &lt;!channel&gt; &amp; *x*" || body.Mrkdwn == nil || *body.Mrkdwn || body.Unfurl == nil || *body.Unfurl || body.Parse != "none" {
		t.Errorf("%s", got.Body)
	}
	for i, most := range []int{150, 3000} {
		if b := body.Blocks[i]; b.Text.Type != "plain_text" || utf8.RuneCountInString(b.Text.Text) > most {
			t.Errorf("block %d is %s of %d characters", i, b.Text.Type, utf8.RuneCountInString(b.Text.Text))
		}
	}
	if strings.Contains(string(got.Body), token) {
		t.Error("the token is in the message")
	}
}

// Slack says no with a 200, and busy with a 429.
func TestWhatSlackAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"no such channel": {200, `{"ok":false,"error":"channel_not_found"}`, "refused"},
		"limited":         {429, `{"ok":false,"error":"ratelimited"}`, "later"},
		"broken":          {200, `{"ok":false,"error":"internal_error"}`, "again"},
		"not slack":       {200, `<html>`, "again"},
		"down":            {502, ``, "later"},
	} {
		h := notifytest.NewHTTP(t, saying(c.status, c.body))
		err := bot(t, h).Send(t.Context(), notify.Trial("m"))
		var refused *notify.Refused
		var later *notify.Later
		got := "again"
		switch {
		case errors.As(err, &refused):
			got = "refused"
		case errors.As(err, &later):
			got = "later"
			if later.After != 30*time.Second {
				t.Errorf("%s: after %s", name, later.After)
			}
		case err == nil:
			got = "sent"
		}
		if got != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// The URL of an incoming webhook is a key: it is sent to, and never named.
func TestTheURLOfAnIncomingWebhookIsNeverNamed(t *testing.T) {
	status := 200
	h := notifytest.NewHTTP(t, func(int, notifytest.Request) (int, http.Header, string) { return status, nil, "ok" })
	client := notify.NewClient(h.Dial, h.Trust)
	t.Cleanup(client.Close)
	s, err := slack.New(slack.Options{Client: client, Hook: secret(hook, "hooks.slack.com:443")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), notify.Trial("m")); err != nil {
		t.Fatal(err)
	}
	if got := h.Requests()[0]; got.Path != "/services/T0/B0/xyz-7d31" || got.Host != "hooks.slack.com" {
		t.Errorf("%+v", got)
	}
	status = 404
	if err := s.Send(t.Context(), notify.Trial("m")); err == nil || strings.Contains(err.Error(), "xyz-7d31") {
		t.Errorf("%v", err)
	}
	for _, stored := range []string{"http://hooks.slack.com/services/x", "https://evil.test/services/x", "xoxb"} {
		s, err := slack.New(slack.Options{Client: client, Hook: secret(stored, "hooks.slack.com:443")})
		if err != nil {
			t.Fatal(err)
		}
		before := len(h.Requests())
		if err := s.Send(t.Context(), notify.Trial("m")); err == nil || len(h.Requests()) != before {
			t.Errorf("%s: %v", stored, err)
		}
	}
}
