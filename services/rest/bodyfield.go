package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// bodyLimit is the most of a body that a credential can be put into, in bytes.
const bodyLimit = 1 << 20

// media is a body that a credential can be put into.
type media int

const (
	mediaOther media = iota
	mediaJSON
	mediaForm
)

// mediaOf reads the declared type of a body that is not encoded.
func mediaOf(m *message) media {
	list, coding := values(m.header, "content-type"), tokens(values(m.header, "content-encoding"))
	if len(list) != 1 || len(coding) > 0 && (len(coding) > 1 || coding[0] != "identity") {
		return mediaOther
	}
	kind, _, err := mime.ParseMediaType(list[0])
	switch {
	case err != nil:
		return mediaOther
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return mediaJSON
	case kind == "application/x-www-form-urlencoded":
		return mediaForm
	}
	return mediaOther
}

// bodyValues returns what the caller has in the field of its body. Without a
// stored credential and without placeholders to look for, bodies of other media
// pass unread.
func bodyValues(call *runtime.Call, m *message, auth *runtime.Auth) ([]string, error) {
	kind := mediaOf(m)
	if m.body == nil || kind == mediaOther {
		return nil, nil
	}
	whole, err := call.Request.Raw.Buffer(bodyLimit)
	if errors.Is(err, runtime.ErrBodyTooLarge) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonBodyTooLarge,
			Msg:  fmt.Sprintf("%s takes its credential in the body, which is over 1 MiB", call.Action.Service),
			Hint: "send a smaller body",
		}
	}
	if err != nil {
		return nil, err
	}
	m.setBody(whole)
	if kind == mediaForm {
		return queryValues("?"+string(whole), auth.Field), nil
	}
	at, err := findMember(whole, auth.Field)
	if err != nil || at.end == 0 {
		return nil, err
	}
	var text string
	if json.Unmarshal(whole[at.start:at.end], &text) != nil {
		text = string(whole[at.start:at.end])
	}
	return []string{text}, nil
}

// dropFromForm takes the service's own placeholder out of the field of a form from which the
// service takes a key too, and before that of the header: Slack would call it invalid. Any
// other value stays, as it may be an argument. A form that is too long to be held passes as it is.
func (b *Backend) dropFromForm(call *runtime.Call, auth *runtime.Auth, m *message) error {
	if auth.Form == "" || m.body == nil || mediaOf(m) != mediaForm {
		return nil
	}
	whole, err := call.Request.Raw.Buffer(bodyLimit)
	if errors.Is(err, runtime.ErrBodyTooLarge) {
		m.body = call.Request.Raw.Body // what was read of it comes first
		return nil
	}
	if err != nil {
		return err
	}
	ours := appendPlaceholders(nil, auth)
	var kept []string
	for pair := range strings.SplitSeq(string(whole), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if queryUnescape(name) != auth.Form || !b.own(call, auth, ours, queryUnescape(value)) {
			kept = append(kept, pair)
		}
	}
	text := strings.Join(kept, "&")
	if len(text) == len(whole) {
		m.setBody(whole)
		return nil
	}
	m.declare(runtime.ChangePlaceholder, auth.Form)
	if m.setBody([]byte(text)); text == "" { // net/http would not say that nothing comes
		m.body, m.empty = nil, true
	}
	return nil
}

// writeBody puts the secret into a field of the body and leaves the other bytes as
// they are.
func (m *message) writeBody(action *runtime.Action, secret string, built bool) error {
	kind, field := mediaOf(m), action.Auth.Field
	if built && isMultipart(m.header) {
		whole, err := request.WithPart(m.header.Get("Content-Type"), m.whole, field, secret)
		if err == nil {
			m.setBody(whole)
		}
		return err
	}
	if m.whole == nil {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonUnsupportedMedia,
			Msg:  fmt.Sprintf("%s takes its credential in the body, and this request has none", action.Service),
			Hint: "send it with a body where the service takes one; what needs no key belongs to a service with auth: {type: none}",
		}
	}
	if kind == mediaOther {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonUnsupportedMedia,
			Msg:  fmt.Sprintf("%s takes its credential in the body, and this body is neither JSON nor a form", action.Service),
			Hint: "send application/json or application/x-www-form-urlencoded, not compressed",
		}
	}
	if kind == mediaForm {
		m.setBody([]byte(setPair(string(m.whole), field, secret)))
		return nil
	}
	at, err := findMember(m.whole, field)
	if err != nil {
		return err
	}
	value, err := request.JSON(secret)
	if err != nil {
		return err
	}
	if at.end == 0 {
		value = append([]byte(strconv.Quote(field)+":"), value...)
		if !at.alone {
			value = append(value, ',')
		}
		at.end = at.start
	}
	m.setBody(bytes.Join([][]byte{m.whole[:at.start], value, m.whole[at.end:]}, nil))
	return nil
}

// member is where a member's value stands. With end 0 there is none, start is
// where one could be put, alone says that it would be the only one.
type member struct {
	start, end int
	alone      bool
}

// findMember finds a member of the object that is the whole body. A second one
// of the same name, or one in another case, is refused: servers differ in which
// they would take.
func findMember(body []byte, field string) (member, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return member{}, errBody("it is not a JSON object", runtime.ReasonInvalidJSON)
	}
	at, count := member{start: int(dec.InputOffset()), alone: true}, 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return member{}, errBody("it is not valid JSON", runtime.ReasonInvalidJSON)
		}
		at.alone = false
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return member{}, errBody("it is not valid JSON", runtime.ReasonInvalidJSON)
		}
		name, _ := key.(string)
		if !strings.EqualFold(name, field) {
			continue
		}
		if count++; count > 1 || name != field {
			return member{}, errBody(fmt.Sprintf("the member %q is there twice or in another case", field), runtime.ReasonDuplicateKey)
		}
		end := int(dec.InputOffset())
		at.start, at.end = end-len(value), end
	}
	if _, err := dec.Token(); err != nil {
		return member{}, errBody("it is not valid JSON", runtime.ReasonInvalidJSON)
	}
	if _, err := dec.Token(); err != io.EOF {
		return member{}, errBody("something follows the JSON object", runtime.ReasonTrailingData)
	}
	return at, nil
}

func errBody(why string, reason runtime.Reason) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: reason,
		Msg: "the credential cannot be put into the body: " + why, Hint: "send one JSON object",
	}
}

// isMultipart reports whether the message is a multipart form.
func isMultipart(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}
