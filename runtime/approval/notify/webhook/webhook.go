// Package webhook tells people by a signed POST of JSON to a URL of their own.
//
// The signature is HMAC-SHA256 under the shared key, in hex, over the decimal
// Unix time of Kimbap-Timestamp, a dot and the body; Kimbap-Delivery names the
// message, and is the same when it comes again. Receivers check the signature,
// refuse a time more than five minutes away, and forget a delivery seen before.
//
// It refuses to send without a key. Start reading at [Sender.Send].
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
)

// Options are what a [Sender] needs, all of it.
type Options struct {
	Client *notify.Client
	Clock  func() time.Time
	URL    *url.URL
	Key    notify.Secret
}

// Sender posts to one URL.
type Sender struct{ o Options }

var _ notify.Sender = (*Sender)(nil)

// New checks the options.
func New(o Options) (*Sender, error) {
	if o.Client == nil || o.Clock == nil || o.URL == nil || o.Key == nil {
		return nil, errors.New("webhook: Options is not complete")
	}
	return &Sender{o}, nil
}

// Name implements [notify.Sender].
func (s *Sender) Name() string { return "webhook " + s.o.URL.Hostname() }

// payload is the body.
type payload struct {
	Event     string            `json:"event"` // approval.asked, or test
	Delivery  string            `json:"delivery"`
	Subject   string            `json:"subject"`
	Text      string            `json:"text"`
	Link      string            `json:"link,omitempty"`
	Approvals []approval.Notice `json:"approvals"`
}

// Send implements [notify.Sender].
func (s *Sender) Send(ctx context.Context, m notify.Message) error {
	key, err := s.o.Key(ctx, notify.Authority(s.o.URL))
	if err != nil {
		return err
	}
	p := payload{Event: "approval.asked", Delivery: m.ID, Subject: m.Subject, Text: m.Text(), Link: m.Link, Approvals: m.Notices}
	if len(m.Notices) == 0 {
		p.Event = "test"
	}
	body, err := json.Marshal(p)
	if err != nil {
		return &notify.Refused{Err: err}
	}
	at := strconv.FormatInt(s.o.Clock().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	header := http.Header{
		"Kimbap-Timestamp": {at}, "Kimbap-Signature": {"v1=" + hex.EncodeToString(mac.Sum(nil))}, "Kimbap-Delivery": {m.ID},
	}
	_, err = s.o.Client.Post(ctx, s.o.URL, body, header)
	return err
}
