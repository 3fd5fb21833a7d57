package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/email"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/slack"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/telegram"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/webhook"
)

// lastNotices is how long a process that ends may still tell people.
const lastNotices = 5 * time.Second

// openNotify makes the senders that approval.notify names. None of them does
// anything before there is something to tell.
func (a *App) openNotify(context.Context) error {
	if len(a.config.Current().Approval.Notify) == 0 {
		return nil
	}
	trust, err := a.upstreamTLS()
	if err != nil {
		return err
	}
	client := notify.NewClient(a.dialNotified, trust)
	a.onClose(func(context.Context) error { client.Close(); return nil })
	a.notifies = client
	for _, n := range a.config.Current().Approval.Notify {
		s, err := a.sender(n, client, trust)
		if err != nil {
			return runtime.Invalid(err, "kimbap config show --origin")
		}
		a.senders = append(a.senders, s)
	}
	a.post, err = notify.New(notify.Options{
		Senders: a.senders, Clock: a.o.Clock, Link: a.config.Current().Approval.Link,
		NewID: func() string { return runtime.NewID("ntf", a.o.Clock()) },
		Reached: func(ctx context.Context, tenant runtime.Tenant, sender string) {
			if err := a.approvals.Reached(ctx, tenant, sender); err != nil {
				a.o.Log.Warn().Err(err).Msg("a notification arrived, but that could not be noted")
			}
		},
		Changed: a.notified,
	})
	if err != nil {
		return err
	}
	a.onClose(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastNotices)
		defer cancel()
		return a.post.Close(ctx)
	})
	return nil
}

// tell passes a question on; without senders there is nobody to tell.
func (a *App) tell(n approval.Notice) <-chan struct{} {
	if a.post == nil {
		return nil
	}
	return a.post.Tell(n)
}

// sender makes one of them.
func (a *App) sender(n config.Notifier, client *notify.Client, trust *tls.Config) (notify.Sender, error) {
	switch n.Type {
	case "webhook":
		target, err := url.Parse(n.URL)
		if err != nil {
			return nil, errors.New("approval.notify: url is not a URL")
		}
		return webhook.New(webhook.Options{Client: client, Clock: a.o.Clock, URL: target, Key: a.notifySecret(n.Secret)})
	case "slack":
		o := slack.Options{Client: client, Channel: n.Channel, API: &url.URL{Scheme: "https", Host: "slack.com", Path: "/api/chat.postMessage"}}
		if n.Webhook != "" {
			return slack.New(slack.Options{Client: client, Hook: a.notifySecret(n.Webhook)})
		}
		o.Token = a.notifySecret(n.Token)
		return slack.New(o)
	case "telegram":
		return telegram.New(telegram.Options{
			Client: client, API: &url.URL{Scheme: "https", Host: "api.telegram.org"}, Token: a.notifySecret(n.Token), Chat: n.Chat,
		})
	case "smtp":
		o := email.Options{
			Dial: a.dialNotified, Trust: trust, Clock: a.o.Clock, Server: n.Server, Implicit: n.TLS == "implicit",
			User: n.User, From: n.From, To: n.To,
		}
		if n.Password != "" {
			o.Password = a.notifySecret(n.Password)
		}
		return email.New(o)
	}
	return nil, fmt.Errorf("approval.notify: there is no notifier of type %q", n.Type)
}

// dialNotified opens a connection for a notification, through the same guard as
// any other. The operator has named the place.
func (a *App) dialNotified(ctx context.Context, authority string) (net.Conn, error) {
	conn, _, _, err := a.dialer().Dial(ctx, authority, true, false)
	return conn, err
}

// notifySecret opens a stored value, for the authority it is bound to. An empty
// authority is for a value that names it itself.
func (a *App) notifySecret(ref string) notify.Secret {
	return func(ctx context.Context, authority string) (runtime.Secret, error) {
		c, err := a.connector.Credential(ctx, runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: ref})
		switch {
		case err != nil:
			return runtime.Secret{}, fmt.Errorf("the stored value %s cannot be opened: %s", ref, runtime.AsError(err).Msg)
		case !c.Found():
			return runtime.Secret{}, &notify.Refused{Err: fmt.Errorf("nothing is stored as %s: kimbap vault set %s --host HOST:PORT", ref, ref)}
		case authority != "" && !c.Allows(authority):
			return runtime.Secret{}, &notify.Refused{Err: fmt.Errorf("%s may not be sent to %s: kimbap vault set %s --host %s", ref, authority, ref, authority)}
		}
		return c.Value, nil
	}
}

// notified says in log and status how a sender fares.
func (a *App) notified(s notify.Status) {
	if s.Problem != "" {
		a.o.Log.Warn().Str("sender", s.Sender).Str("problem", s.Problem).Int("failed", s.Failed).Msg("nobody was told of an approval")
	}
	a.writeState()
}

// NotifyStatus is how one sender fares.
type NotifyStatus = notify.Status

// NotifyResult is how a test message went.
type NotifyResult struct {
	Sender  string `json:"sender"`
	Sent    bool   `json:"sent"`
	Problem string `json:"problem,omitempty"`
}

// TestNotify sends a test message by every sender, once each.
func (a *App) TestNotify(ctx context.Context) ([]NotifyResult, error) {
	if len(a.senders) == 0 {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "no notifier is configured",
			Hint: "add one to config.yaml: approval: {notify: [{type: slack, token: notify.slack, channel: C0123456789}]}",
		}
	}
	var out []NotifyResult
	for _, s := range a.senders {
		r := NotifyResult{Sender: s.Name(), Sent: true}
		if err := s.Send(ctx, notify.Trial(runtime.NewID("ntf", a.o.Clock()))); err != nil {
			r.Sent, r.Problem = false, runtime.Said(err)
		}
		out = append(out, r)
	}
	return out, nil
}
