package notices_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/notices"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/notifytest"
)

const key = "a key of thirty-two letters, or so"

// options are those of a board with one webhook, for which a value is stored.
func options(up *notifytest.HTTP, stored func() (runtime.Credential, error)) notices.Options {
	return notices.Options{
		Notifiers: []config.Notifier{{Type: "webhook", URL: "https://hooks.test/in", Secret: "notify.key"}},
		Clock:     time.Now, Dial: up.Dial, Trust: up.Trust,
		Credential: func(_ context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
			if tenant != runtime.DefaultTenant || auth.Ref != "notify.key" {
				return runtime.Credential{}, errors.New("another value was asked for")
			}
			return stored()
		},
		Reached: func(context.Context, runtime.Tenant, string) {},
		Changed: func(notify.Status) {},
	}
}

func upstream(t *testing.T) *notifytest.HTTP {
	return notifytest.NewHTTP(t, func(int, notifytest.Request) (int, http.Header, string) { return http.StatusOK, nil, "" })
}

// A stored value goes to the hosts that it is bound to, and nothing is sent without it.
func TestNothingIsSentWithoutItsKey(t *testing.T) {
	up := upstream(t)
	for says, stored := range map[string]func() (runtime.Credential, error){
		"cannot be opened":  func() (runtime.Credential, error) { return runtime.Credential{}, errors.New("the vault is locked") },
		"nothing is stored": func() (runtime.Credential, error) { return runtime.Credential{}, nil },
		"may not be sent to": func() (runtime.Credential, error) {
			return runtime.Credential{Name: "notify.key", Value: runtime.NewSecret(key), Authorities: []string{"other.test:443"}}, nil
		},
	} {
		b, err := notices.Open(options(up, stored))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Try(t.Context()); len(got) != 1 || got[0].Sent || !strings.Contains(got[0].Problem, says) || strings.Contains(got[0].Problem, key) {
			t.Errorf("%s: %+v", says, got)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestAQuestionIsToldAndTheSenderFaresWell(t *testing.T) {
	up, reached := upstream(t), make(chan string, 1)
	o := options(up, func() (runtime.Credential, error) {
		return runtime.Credential{Name: "notify.key", Value: runtime.NewSecret(key), Authorities: []string{"hooks.test:443"}}, nil
	})
	o.Reached = func(_ context.Context, tenant runtime.Tenant, sender string) {
		reached <- string(tenant) + " " + sender
	}
	b, err := notices.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	told := b.Tell(approval.Notice{ID: "apr_1", Tenant: "acme", Expires: time.Now().Add(time.Hour)})
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
	if who := <-reached; !strings.HasPrefix(who, "acme webhook") {
		t.Errorf("reached %q", who)
	}
	b.Redial()
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if s := b.Status(); len(s) != 1 || s[0].Sent != 1 || s[0].Problem != "" {
		t.Errorf("%+v", s)
	}
}

// Whoever has no notifier configured asks no questions of a board.
func TestNoBoardTellsNobody(t *testing.T) {
	var none *notices.Board
	if none.Tell(approval.Notice{}) != nil || none.Status() != nil {
		t.Error("somebody was told")
	}
	none.Redial()
}

func TestWhatCannotBeASenderIsRefused(t *testing.T) {
	up := upstream(t)
	for _, n := range []config.Notifier{{Type: "pigeon"}, {Type: "webhook", URL: "https://[bad"}} {
		o := options(up, nil)
		o.Notifiers = []config.Notifier{n}
		if _, err := notices.Open(o); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s: %v", n.Type, err)
		}
	}
}
