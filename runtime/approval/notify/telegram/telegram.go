// Package telegram tells people in a Telegram chat, by a bot's sendMessage.
//
// The text goes out without a parse mode and marked as preformatted, so that
// Telegram reads no mentions, commands, links or formatting out of it. The bot's
// token is part of the URL: no error names that. It reads no answers of people:
// nothing can be decided from the chat.
//
// Start reading at [Sender.Send].
package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/kimbap-run/kimbap/runtime/approval/notify"
)

// Options are what a [Sender] needs, all of it.
type Options struct {
	Client *notify.Client
	API    *url.URL // https://api.telegram.org
	Token  notify.Secret
	Chat   string
}

// Sender posts into one chat.
type Sender struct{ o Options }

var _ notify.Sender = (*Sender)(nil)

// New checks the options.
func New(o Options) (*Sender, error) {
	if o.Client == nil || o.API == nil || o.Token == nil || o.Chat == "" {
		return nil, errors.New("telegram: Options is not complete")
	}
	return &Sender{o}, nil
}

// Name implements [notify.Sender].
func (s *Sender) Name() string { return "telegram " + s.o.Chat }

// mostText is the most that Telegram takes, in UTF-16 code units.
const mostText = 4096

type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"` // in UTF-16 code units
	Length int    `json:"length"`
}

// message is the body of sendMessage.
type message struct {
	Chat     string   `json:"chat_id"`
	Text     string   `json:"text"`
	Entities []entity `json:"entities"`
	Preview  struct {
		Disabled bool `json:"is_disabled"`
	} `json:"link_preview_options"`
}

func (s *Sender) compose(m notify.Message) message {
	out := message{Chat: s.o.Chat}
	out.Preview.Disabled = true
	content := m.Subject + "\n\n" + strings.Join(m.Lines, "\n")
	units := utf16.Encode([]rune(content))
	if most := mostText - len(m.Link) - 1; len(units) > most {
		units = units[:most]
	}
	out.Text = string(utf16.Decode(units)) // half of a pair becomes U+FFFD, one unit as well
	out.Entities = []entity{{"pre", 0, len(units)}}
	if m.Link != "" {
		out.Text += "\n" + m.Link
	}
	return out
}

// answer is what Telegram says to every method.
type answer struct {
	OK          bool   `json:"ok"`
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter int `json:"retry_after"`
	} `json:"parameters"`
}

// Send implements [notify.Sender].
func (s *Sender) Send(ctx context.Context, m notify.Message) error {
	token, err := s.o.Token(ctx, notify.Authority(s.o.API))
	if err != nil {
		return err
	}
	if strings.ContainsAny(token.Reveal(), "/?#% ") {
		return &notify.Refused{Err: errors.New("telegram: what is stored is not the token of a bot")}
	}
	body, err := json.Marshal(s.compose(m))
	if err != nil {
		return &notify.Refused{Err: err}
	}
	data, err := s.o.Client.Post(ctx, s.o.API.JoinPath("bot"+token.Reveal(), "sendMessage"), body, nil)
	var said answer
	if json.Unmarshal(data, &said) != nil {
		if err == nil {
			err = errors.New("telegram: the answer is not one of Telegram")
		}
		return err
	}
	if said.OK {
		return err
	}
	why := fmt.Errorf("telegram: %.100q", strings.ReplaceAll(said.Description, token.Reveal(), "[secret]"))
	var later *notify.Later
	switch {
	case said.Parameters.RetryAfter > 0:
		return &notify.Later{Err: why, After: time.Duration(said.Parameters.RetryAfter) * time.Second}
	case errors.As(err, &later):
		return &notify.Later{Err: why, After: later.After}
	}
	return &notify.Refused{Err: why}
}
