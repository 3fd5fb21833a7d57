package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/notifytest"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/webhook"
)

const key = "signing-key-7d31"

func sender(t *testing.T, h *notifytest.HTTP, target string) *webhook.Sender {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	client := notify.NewClient(h.Dial, h.Trust)
	t.Cleanup(client.Close)
	s, err := webhook.New(webhook.Options{
		Client: client, URL: u, Clock: func() time.Time { return time.Unix(1_900_000_000, 0) },
		Key: func(_ context.Context, authority string) (runtime.Secret, error) {
			if authority != "hooks.test:443" {
				return runtime.Secret{}, errors.New("not for " + authority)
			}
			return runtime.NewSecret(key), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func answering(status int) func(int, notifytest.Request) (int, http.Header, string) {
	return func(int, notifytest.Request) (int, http.Header, string) {
		return status, http.Header{"Retry-After": {"7"}}, ""
	}
}

// A receiver that holds the key can tell our messages, and their time, from all
// others; the key itself is nowhere.
func TestMessagesAreSigned(t *testing.T) {
	h := notifytest.NewHTTP(t, answering(204))
	m := notify.Message{ID: "msg_1", Subject: "kimbap: a", Lines: []string{"b"}, Notices: []approval.Notice{{ID: "apr_1", Action: "x.y"}}}
	if err := sender(t, h, "https://hooks.test/in?x=1").Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := h.Requests()[0]
	at := got.Header.Get("Kimbap-Timestamp")
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(at + "." + string(got.Body)))
	if want := "v1=" + hex.EncodeToString(mac.Sum(nil)); got.Header.Get("Kimbap-Signature") != want || at != "1900000000" {
		t.Errorf("%v", got.Header)
	}
	var body struct {
		Event, Delivery string
		Approvals       []struct{ ID, Action string }
	}
	if err := json.Unmarshal(got.Body, &body); err != nil || body.Event != "approval.asked" || body.Approvals[0].ID != "apr_1" {
		t.Errorf("%s, %v", got.Body, err)
	}
	if body.Delivery != "msg_1" || got.Header.Get("Kimbap-Delivery") != "msg_1" || got.Method != "POST" || got.Path != "/in?x=1" {
		t.Errorf("%+v", got)
	}
	if all, _ := json.Marshal(got); strings.Contains(string(all), key) || strings.Contains(string(got.Body), key) {
		t.Error("the key was sent")
	}
}

// What cannot be mended is not tried again; redirects are not followed, since
// the message is for that address alone.
func TestWhatCannotBeMendedIsNotSentAgain(t *testing.T) {
	for status, want := range map[int]string{200: "sent", 302: "refused", 400: "refused", 404: "refused", 429: "later", 503: "later"} {
		h := notifytest.NewHTTP(t, answering(status))
		err := sender(t, h, "https://hooks.test/secret-path").Send(t.Context(), notify.Trial("msg_1"))
		var refused *notify.Refused
		var later *notify.Later
		got := "sent"
		switch {
		case errors.As(err, &refused):
			got = "refused"
		case errors.As(err, &later):
			got = "later"
			if later.After != 7*time.Second {
				t.Errorf("%d: after %s", status, later.After)
			}
		case err != nil:
			got = err.Error()
		}
		if got != want || len(h.Requests()) != 1 {
			t.Errorf("%d: %s, %d requests", status, got, len(h.Requests()))
		}
		if err != nil && strings.Contains(err.Error(), "secret-path") {
			t.Errorf("the error names the URL: %v", err)
		}
	}
}

// Without a key that may go there nothing is sent, and to nobody whose
// certificate is not trusted.
func TestNothingWithoutKeyOrTrust(t *testing.T) {
	h := notifytest.NewHTTP(t, answering(204))
	if err := sender(t, h, "https://other.test/in").Send(t.Context(), notify.Trial("m")); err == nil {
		t.Error("sent without a key")
	}
	stranger := notifytest.NewHTTP(t, answering(204))
	h.Authority = stranger.Authority
	if err := sender(t, h, "https://hooks.test/hidden").Send(t.Context(), notify.Trial("m")); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
	if len(h.Requests())+len(stranger.Requests()) != 0 {
		t.Error("something arrived")
	}
	if _, err := webhook.New(webhook.Options{}); err == nil {
		t.Error("no options at all")
	}
}
