package telegram_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/notifytest"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/telegram"
)

const token = "123456:AAF-7d31"

func bot(t *testing.T, dial notify.Dial, h *notifytest.HTTP, value string) *telegram.Sender {
	t.Helper()
	client := notify.NewClient(dial, h.Trust)
	t.Cleanup(client.Close)
	s, err := telegram.New(telegram.Options{
		Client: client, API: &url.URL{Scheme: "https", Host: "api.telegram.org"}, Chat: "-100123",
		Token: func(_ context.Context, authority string) (runtime.Secret, error) {
			if authority != "api.telegram.org:443" {
				return runtime.Secret{}, errors.New("not for " + authority)
			}
			return runtime.NewSecret(value), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func saying(status int, body string) func(int, notifytest.Request) (int, http.Header, string) {
	return func(int, notifytest.Request) (int, http.Header, string) { return status, nil, body }
}

// The request is the one that sendMessage wants; all of the text is
// preformatted, so that nothing in it is a mention, a command or a link.
func TestBotPosts_AP009(t *testing.T) {
	h := notifytest.NewHTTP(t, saying(200, `{"ok":true,"result":{"message_id":1}}`))
	m := notify.Message{ID: "m", Subject: "kimbap: @everyone", Lines: []string{"/start evil.test 👍", strings.Repeat("👍", 3000)}, Link: "https://c.test/1"}
	if err := bot(t, h.Dial, h, token).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := h.Requests()[0]
	if got.Method != "POST" || got.Host != "api.telegram.org" || got.Path != "/bot"+token+"/sendMessage" {
		t.Errorf("%+v", got)
	}
	var body struct {
		Chat     string  `json:"chat_id"`
		Text     string  `json:"text"`
		Parse    *string `json:"parse_mode"`
		Entities []struct {
			Type           string
			Offset, Length int
		}
		Preview struct {
			Disabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
	}
	if err := json.Unmarshal(got.Body, &body); err != nil {
		t.Fatal(err)
	}
	marked := len(utf16.Encode([]rune(strings.TrimSuffix(body.Text, "\nhttps://c.test/1"))))
	if body.Chat != "-100123" || body.Parse != nil || !body.Preview.Disabled || len(body.Entities) != 1 ||
		body.Entities[0].Type != "pre" || body.Entities[0].Offset != 0 || body.Entities[0].Length != marked {
		t.Errorf("%d marked of %+v", marked, body.Entities)
	}
	if n := len(utf16.Encode([]rune(body.Text))); n > 4096 {
		t.Errorf("%d units", n)
	}
	if strings.Contains(string(got.Body), token) {
		t.Error("the token is in the message")
	}
}

// Telegram's own words are kept, its token is not, whatever goes wrong.
func TestErrorsNameNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		after  time.Duration
		final  bool
	}{
		"limited":    {429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}`, 5 * time.Second, false},
		"no chat":    {400, `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, 0, true},
		"bad token":  {401, `{"ok":false,"error_code":401,"description":"Unauthorized ` + token + `"}`, 0, true},
		"down":       {502, `<html>` + token, 0, false},
		"not theirs": {200, `<html>`, 0, false},
	} {
		h := notifytest.NewHTTP(t, saying(c.status, c.body))
		err := bot(t, h.Dial, h, token).Send(t.Context(), notify.Trial("m"))
		var refused *notify.Refused
		var later *notify.Later
		if err == nil || errors.As(err, &refused) != c.final || errors.As(err, &later) && later.After != c.after || strings.Contains(err.Error(), "AAF") {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := notifytest.NewHTTP(t, saying(200, ""))
	down := func(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") }
	if err := bot(t, down, h, token).Send(t.Context(), notify.Trial("m")); err == nil || strings.Contains(err.Error(), "AAF") {
		t.Errorf("no connection: %v", err)
	}
	if err := bot(t, h.Dial, h, "x/../y").Send(t.Context(), notify.Trial("m")); err == nil || len(h.Requests()) != 0 {
		t.Errorf("a token that is a path: %v", err)
	}
}
