package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// The scrubber (guarantee G3). A decoded copy of the answer is searched for the
// credential that this exchange sent, in the forms that package scrub knows, while
// the upstream's own bytes go out. It is best effort: an upstream that encodes the
// credential in a way of its own is not caught, nor are a WebSocket's compressed messages,
// and what follows another upgrade.
// A Basic user name is looked for when it is stored; one that stands in the service
// file is in honest answers.

// errReflected ends an answer whose compressed body holds the credential.
var errReflected = errors.New("the answer holds the credential")

// scrubHead overwrites the credential in field values. A field whose name holds
// it is dropped, since a name cannot be overwritten and stay a name.
func (x *exchange) scrubHead(h http.Header) {
	m := x.message.scrub
	if m == nil {
		return
	}
	for name, list := range h {
		if m.InName(name) {
			delete(h, name)
			x.declare(runtime.ChangeScrubbedName, "")
			x.result.Scrubbed++
			continue
		}
		for i, value := range list {
			if len(value) < m.Shortest() {
				continue
			}
			text := []byte(value)
			if n := m.Mask(text); n > 0 {
				list[i] = string(text)
				x.declare(runtime.ChangeScrubbed, name)
				x.result.Scrubbed += n
			}
		}
	}
}

// scanner chooses how the body is searched: not at all without a stored
// credential, in place when it is not encoded, on a decoded copy otherwise.
func (x *exchange) scanner(ctx context.Context, resp *http.Response, header http.Header) (func(*exchange, io.Reader) error, error) {
	if x.message.scrub == nil || resp.Body == http.NoBody || http1.Bodiless(x.message.method, resp.StatusCode) {
		return (*exchange).copyPlain, nil
	}
	coding := codingOf(header)
	if coding == "" {
		if of := messagesOf(header); of != nil {
			return func(x *exchange, body io.Reader) error { return x.copyParts(body, of) }, nil
		}
		return (*exchange).copyMasked, nil
	}
	if scrub.DecoderOf(coding) != nil {
		return func(x *exchange, body io.Reader) error { return x.copyScanned(ctx, body, coding) }, nil
	}
	x.result.Unscanned = true
	if x.lines.o.ScrubStrict {
		return nil, x.unscannable(coding)
	}
	return (*exchange).copyMasked, nil // there are servers that name an encoding and use none
}

// sealed notes that messages are compressed, each by itself, and so not searched.
func (x *exchange) sealed(of parts) error {
	x.result.Unscanned = true
	if !x.lines.o.ScrubStrict {
		return nil
	}
	e := x.unscannable(of.coding())
	e.Hint = "have the client accept no compression of messages, or set upstream.scrub to best_effort in config.yaml"
	return e
}

func (x *exchange) unscannable(coding string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonScrubImpossible,
		Msg: fmt.Sprintf("%s answered in an encoding (%s) that cannot be searched for the credential",
			hostOf(x.message.authority), runtime.Printable(coding)),
		Hint: "ask with Accept-Encoding: gzip, br, zstd or identity, or set upstream.scrub to best_effort in config.yaml",
	}
}

func (x *exchange) reflected() error {
	x.result.Scrubbed++
	return &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonReflectedSecret,
		Msg:  hostOf(x.message.authority) + " sent the credential back inside a compressed answer, which was cut off before it",
		Hint: "ask with Accept-Encoding: identity, and the credential is blanked out instead",
	}
}

// copyMasked passes the body on with the credential overwritten. It holds back
// the longest end that could begin a match, which is nothing for most chunks
// and always nothing at the end of an event or line.
func (x *exchange) copyMasked(body io.Reader) error { return x.mask(body, nil, x.write) }

// copyParts is copyMasked for an answer of messages.
func (x *exchange) copyParts(body io.Reader, of *messages) error { return x.mask(body, of, x.write) }

// parts says where in an answer nothing is held back.
type parts interface {
	end(next []byte) (whole bool, err error) // a part ends where the next bytes do
	released()                               // what was held back at such an end is out
	sealed() bool                            // a part cannot be searched
	coding() string                          // what such a part is in
}

// mask is copyMasked for an answer of parts, or of none when of is nil, and for who takes it.
func (x *exchange) mask(body io.Reader, of parts, write func([]byte) error) error {
	m := x.message.scrub
	if m.Longest() > bufferSize/2 { // a key file as long as the buffer: one of its own
		return x.maskThrough(body, make([]byte, bufferSize+m.Longest()), of, write)
	}
	return x.withBuffer(func(buf []byte) error { return x.maskThrough(body, buf, of, write) })
}

func (x *exchange) maskThrough(body io.Reader, buf []byte, of parts, write func([]byte) error) error {
	m, held := x.message.scrub, 0
	for {
		n, err := body.Read(buf[held:])
		x.result.BytesIn += int64(n)
		text := buf[:held+n]
		hits, whole := 0, false
		if of != nil {
			var odd error
			if whole, odd = of.end(text[held:]); odd == nil && of.sealed() {
				odd = x.sealed(of)
			}
			if odd != nil {
				return odd
			}
		}
		if err != nil {
			hits, held = m.Mask(text), 0
		} else {
			hits, held = m.MaskPart(text)
		}
		if whole && held > 0 {
			hits += m.Mask(text[len(text)-held:])
			held = 0
			of.released()
		}
		if hits > 0 {
			x.declare(runtime.ChangeScrubbedBody, "")
			x.result.Scrubbed += hits
		}
		if werr := write(text[:len(text)-held]); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		copy(buf, text[len(text)-held:])
	}
}

// Mask overwrites a secret and a user name in a text, in every form that the
// scrubber looks for, and returns how often. Other backends have no scrubber.
func (b *Backend) Mask(secret, user string, text []byte) int {
	m := b.matchers.Of(secret, "", user)
	if m == nil {
		return 0
	}
	return m.Mask(text)
}

// Forget drops what the backend keeps of credentials.
func (b *Backend) Forget() { b.matchers.Forget() }
