package notices

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/email"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/slack"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/telegram"
	"github.com/kimbap-run/kimbap/runtime/approval/notify/webhook"
)

// sender makes one of them.
func (o *Options) sender(n config.Notifier, client *notify.Client) (notify.Sender, error) {
	switch n.Type {
	case "webhook":
		target, err := url.Parse(n.URL)
		if err != nil {
			return nil, errors.New("approval.notify: url is not a URL")
		}
		return webhook.New(webhook.Options{Client: client, Clock: o.Clock, URL: target, Key: o.secret(n.Secret)})
	case "slack":
		if n.Webhook != "" {
			return slack.New(slack.Options{Client: client, Hook: o.secret(n.Webhook)})
		}
		return slack.New(slack.Options{
			Client: client, Channel: n.Channel, API: &url.URL{Scheme: "https", Host: "slack.com", Path: "/api/chat.postMessage"}, Token: o.secret(n.Token),
		})
	case "telegram":
		return telegram.New(telegram.Options{
			Client: client, API: &url.URL{Scheme: "https", Host: "api.telegram.org"}, Token: o.secret(n.Token), Chat: n.Chat,
		})
	case "smtp":
		mail := email.Options{
			Dial: o.Dial, Trust: o.Trust, Clock: o.Clock, Server: n.Server, Implicit: n.TLS == "implicit",
			User: n.User, From: n.From, To: n.To,
		}
		if n.Password != "" {
			mail.Password = o.secret(n.Password)
		}
		return email.New(mail)
	}
	return nil, fmt.Errorf("approval.notify: there is no notifier of type %q", n.Type)
}

// secret opens a stored value, for the authority it is bound to. An empty
// authority is for a value that names it itself.
func (o *Options) secret(ref string) notify.Secret {
	return func(ctx context.Context, authority string) (runtime.Secret, error) {
		c, err := o.Credential(ctx, runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: ref})
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
