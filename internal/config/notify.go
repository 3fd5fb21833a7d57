package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Notifier is one way to tell people that a request waits for them. Secret,
// Token, Webhook and Password are names in the vault, never the values.
type Notifier struct {
	Type     string   `yaml:"type"`               // webhook, slack, telegram or smtp
	URL      string   `yaml:"url,omitempty"`      // webhook: https
	Secret   string   `yaml:"secret,omitempty"`   // webhook: the key of the signatures
	Token    string   `yaml:"token,omitempty"`    // slack, telegram: of the bot
	Channel  string   `yaml:"channel,omitempty"`  // slack
	Webhook  string   `yaml:"webhook,omitempty"`  // slack: the URL of an incoming webhook, instead of token and channel
	Chat     string   `yaml:"chat,omitempty"`     // telegram
	Server   string   `yaml:"server,omitempty"`   // smtp: host:port
	TLS      string   `yaml:"tls,omitempty"`      // smtp: starttls, or implicit
	User     string   `yaml:"user,omitempty"`     // smtp
	Password string   `yaml:"password,omitempty"` // smtp
	From     string   `yaml:"from,omitempty"`     // smtp
	To       []string `yaml:"to,omitempty"`       // smtp
}

// String is for people: no key is in it.
func (n Notifier) String() string {
	return strings.Join(slices.DeleteFunc([]string{n.Type, n.URL, n.Channel, n.Chat, n.Server}, func(s string) bool { return s == "" }), " ")
}

// notifierKeys are what each type takes, those it needs first, with an example.
type notifierKeys struct {
	needs, may []string
	example    string
}

func notifierTypes() map[string]notifierKeys {
	return map[string]notifierKeys{
		"webhook":  {[]string{"url", "secret"}, nil, "{type: webhook, url: https://hooks.example.com/kimbap, secret: notify.webhook}"},
		"slack":    {nil, []string{"token", "channel", "webhook"}, "{type: slack, token: notify.slack, channel: C0123456789}"},
		"telegram": {[]string{"token", "chat"}, nil, `{type: telegram, token: notify.telegram, chat: "-1001234567890"}`},
		"smtp": {
			[]string{"server", "from", "to"}, []string{"tls", "user", "password"},
			`{type: smtp, server: "mail.example.com:587", user: me, password: notify.mail, from: me@example.com, to: [me@example.com]}`,
		},
	}
}

// notifiers reads approval.notify.
func (l *loader) notifiers(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		l.problem(l.at(n), wrong{"approval.notify cannot be " + describe(n), "write a list: [" + notifierTypes()["slack"].example + "]"})
		return
	}
	for _, item := range n.Content {
		if notifier, ok := l.notifier(item); ok {
			l.cfg.Approval.Notify = append(l.cfg.Approval.Notify, notifier)
		}
	}
	l.places["approval.notify"] = l.at(n)
}

// notifier reads one.
func (l *loader) notifier(n *yaml.Node) (out Notifier, ok bool) {
	if n.Kind != yaml.MappingNode {
		l.problem(l.at(n), wrong{"a notifier cannot be " + describe(n), "write " + notifierTypes()["slack"].example})
		return out, false
	}
	before := len(l.problems)
	fields, places := l.notifierFields(n, &out)
	keys, known := notifierTypes()[out.Type]
	if !known {
		l.problem(l.at(n), wrong{fmt.Sprintf("there is no notifier of type %q", out.Type), "write webhook, slack, telegram or smtp"})
		return out, false
	}
	for _, name := range fields {
		if name != "type" && !slices.Contains(keys.needs, name) && !slices.Contains(keys.may, name) {
			l.problem(places[name], wrong{fmt.Sprintf("a notifier of type %s has no key %q", out.Type, name), "write " + keys.example})
			l.cutValue()
		}
	}
	for _, name := range keys.needs {
		if !slices.Contains(fields, name) {
			l.problem(l.at(n), wrong{fmt.Sprintf("a notifier of type %s needs %s", out.Type, name), "write " + keys.example})
		}
	}
	if err := out.check(); err != nil {
		l.problem(l.at(n), err)
		l.cutValue()
	}
	return out, len(l.problems) == before
}

// cutValue shortens the last excerpt to nothing: what stands there may be a
// secret in the wrong place.
func (l *loader) cutValue() { l.problems[len(l.problems)-1].Excerpt = "" }

// notifierFields reads the members by their names.
func (l *loader) notifierFields(n *yaml.Node, out *Notifier) (fields []string, places map[string]place) {
	places = map[string]place{}
	texts := map[string]*string{
		"type": &out.Type, "url": &out.URL, "secret": &out.Secret, "token": &out.Token, "channel": &out.Channel, "webhook": &out.Webhook,
		"chat": &out.Chat, "server": &out.Server, "tls": &out.TLS, "user": &out.User, "password": &out.Password, "from": &out.From,
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		text := value.Kind == yaml.ScalarNode && value.Tag == "!!str" && value.Value != ""
		_, twice := places[name.Value]
		switch {
		case twice:
			l.problem(l.at(name), wrong{name.Value + " stands twice", "keep one of the two"})
		case name.Value == "to" && value.Kind == yaml.SequenceNode && len(value.Content) > 0:
			for _, item := range value.Content {
				out.To = append(out.To, item.Value)
			}
		case texts[name.Value] != nil && text:
			*texts[name.Value] = value.Value
		case texts[name.Value] != nil || name.Value == "to":
			l.problem(l.at(value), wrong{fmt.Sprintf("%s of a notifier cannot be %s", name.Value, describe(value)), "write it as text, in quotes; to is a list"})
		default:
			l.problem(l.at(name), wrong{fmt.Sprintf("a notifier has no key %q", name.Value), "see docs/cli.md for what each type takes"})
			l.cutAfter(name)
		}
		fields, places[name.Value] = append(fields, name.Value), l.at(name)
	}
	return fields, places
}

// check looks at values. A name in the vault has no spaces and no slashes: those
// have the secrets that people write here by mistake.
func (n *Notifier) check() error {
	for key, ref := range map[string]string{"secret": n.Secret, "token": n.Token, "webhook": n.Webhook, "password": n.Password} {
		if ref != "" && strings.Trim(ref, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" || len(ref) > 100 || strings.HasPrefix(ref, "xox") {
			return wrong{key + " is not a name in the vault", "store the value with: kimbap vault set notify.name --host HOST:PORT, and write notify.name here"}
		}
	}
	switch n.Type {
	case "webhook":
		u, err := url.Parse(n.URL)
		if n.URL != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil) {
			return wrong{"url is not the https URL of a webhook", "write https://hooks.example.com/kimbap"}
		}
	case "slack":
		if byToken := n.Token != "" && n.Channel != ""; byToken == (n.Webhook != "") || (n.Token != "") != (n.Channel != "") {
			return wrong{"slack takes token and channel, or webhook", "write " + notifierTypes()["slack"].example}
		}
	case "smtp":
		if _, port, err := net.SplitHostPort(n.Server); n.Server != "" && (err != nil || port == "") {
			return wrong{"server is not host:port", `write "mail.example.com:587"`}
		}
		if n.TLS != "" && n.TLS != "starttls" && n.TLS != "implicit" {
			return wrong{fmt.Sprintf("tls cannot be %q", n.TLS), "write starttls (port 587) or implicit (port 465)"}
		}
		if (n.User == "") != (n.Password == "") {
			return wrong{"user and password go together", "write both, or neither"}
		}
	}
	return nil
}

// checkLink wants a URL that says where a question is seen.
func checkLink(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || !strings.Contains(text, "{id}") {
		return wrong{"approval.link is not a URL with {id} in it", "write https://console.example.com/approvals/{id}"}
	}
	return nil
}
