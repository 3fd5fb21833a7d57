// Package slack tells people in a Slack channel: by a bot's token and
// chat.postMessage, or by an incoming webhook, whose URL is the key.
//
// The text goes out as plain text, which Slack does not read mentions, links or
// formatting out of; where Slack wants a text with markup as well, its three
// special characters are escaped. Start reading at [Sender.Send].
package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kimbap-run/kimbap/runtime/approval/notify"
)

// Options are what a [Sender] needs: Client, and Token with Channel, or Hook.
type Options struct {
	Client  *notify.Client
	API     *url.URL      // https://slack.com/api/chat.postMessage
	Token   notify.Secret // of a bot
	Channel string
	Hook    notify.Secret // the URL of an incoming webhook
}

// Sender posts into one channel.
type Sender struct{ o Options }

var _ notify.Sender = (*Sender)(nil)

// New checks the options.
func New(o Options) (*Sender, error) {
	byToken := o.Token != nil && o.Channel != "" && o.API != nil
	if o.Client == nil || byToken == (o.Hook != nil) {
		return nil, errors.New("slack: Options needs Token, Channel and API, or Hook")
	}
	return &Sender{o}, nil
}

// Name implements [notify.Sender].
func (s *Sender) Name() string {
	if s.o.Hook != nil {
		return "slack webhook"
	}
	return "slack " + s.o.Channel
}

// The most that Slack takes, in characters: of a header block, and of a text in
// a section block.
const (
	mostHeader  = 150
	mostSection = 3000
)

type text struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

type block struct {
	Type string `json:"type"`
	Text text   `json:"text"`
}

// message is the body of chat.postMessage and of incoming webhooks.
type message struct {
	Channel     string  `json:"channel,omitempty"`
	Text        string  `json:"text"` // for notifications and readers of screens
	Mrkdwn      bool    `json:"mrkdwn"`
	Parse       string  `json:"parse,omitempty"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
	Blocks      []block `json:"blocks"`
}

func compose(m notify.Message) message {
	plain := func(kind, content string, most int) block {
		if runes := []rune(content); len(runes) > most {
			content = string(runes[:most-1]) + "…"
		}
		return block{kind, text{"plain_text", content, false}}
	}
	body := strings.Join(m.Lines, "\n")
	if m.Link != "" {
		body += "\n" + m.Link
	}
	return message{
		Text:   strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(m.Subject),
		Parse:  "none",
		Blocks: []block{plain("header", m.Subject, mostHeader), plain("section", body, mostSection)},
	}
}

// Send implements [notify.Sender].
func (s *Sender) Send(ctx context.Context, m notify.Message) error {
	if s.o.Hook != nil {
		return s.byHook(ctx, compose(m))
	}
	token, err := s.o.Token(ctx, notify.Authority(s.o.API))
	if err != nil {
		return err
	}
	body := compose(m)
	body.Channel = s.o.Channel
	answer, err := s.post(ctx, s.o.API, body, http.Header{"Authorization": {"Bearer " + token.Reveal()}})
	if err != nil {
		return err
	}
	var said struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return errors.New("slack: the answer is not one of Slack")
	}
	if said.OK {
		return nil
	}
	err = fmt.Errorf("slack: %.60q", said.Error)
	switch said.Error {
	case "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout":
		return err
	}
	return &notify.Refused{Err: err}
}

// byHook posts to the URL that is a key.
func (s *Sender) byHook(ctx context.Context, body message) error {
	hook, err := s.o.Hook(ctx, "")
	if err != nil {
		return err
	}
	target, err := url.Parse(hook.Reveal())
	if err != nil || target.Scheme != "https" || target.Host == "" {
		return &notify.Refused{Err: errors.New("slack: what is stored is not the URL of a webhook")}
	}
	if _, err := s.o.Hook(ctx, notify.Authority(target)); err != nil { // may it go there?
		return err
	}
	_, err = s.post(ctx, target, body, nil)
	return err
}

func (s *Sender) post(ctx context.Context, target *url.URL, body message, header http.Header) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, &notify.Refused{Err: err}
	}
	return s.o.Client.Post(ctx, target, data, header)
}
