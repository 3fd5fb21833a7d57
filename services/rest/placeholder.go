package rest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// placeholders are those of one service. They are taken out of their map once for a
// request: every piece of every field is compared with them, and to walk over a map costs
// many times as much.
type placeholders []string

// appendPlaceholders adds those of a service to a list.
func appendPlaceholders(list placeholders, auth *runtime.Auth) placeholders {
	for _, p := range auth.Placeholders {
		if p != "" {
			list = append(list, p)
		}
	}
	return list
}

// own reports whether the value is the placeholder of the call's own service, or of one with
// the same key: a program has one variable for all services of Google, say.
func (b *Backend) own(call *runtime.Call, auth *runtime.Auth, ours placeholders, value string) bool {
	if slices.Contains(ours, value) {
		return true
	}
	service, ok := b.o.Placeholders(value)
	return ok && (service == call.Action.Service || auth.Ref != "" && b.o.KeyOf(service) == auth.Ref)
}

// known reports whether one of the values is anyone's placeholder.
func (b *Backend) known(ours placeholders, list []string) (service string, ok bool) {
	for _, value := range list {
		if value == "" {
			continue
		}
		if service, ok := b.o.Placeholders(value); ok {
			return service, true
		}
		if slices.Contains(ours, value) {
			return "", true
		}
	}
	return "", false
}

// elsewhere refuses a placeholder outside the credential's place, which may be a
// segment of the path. What stands in the place beside one is left to [Backend.refuseInPlace].
func (b *Backend) elsewhere(call *runtime.Call, auth *runtime.Auth, ours placeholders, m *message) error {
	place, segment := foldedFieldOf(auth), segmentOf(call.Action)
	if err := b.refuseNames(m); err != nil {
		return err
	}
	if m.trailer != nil {
		m.marked = func(name string, list []string) bool { return b.marks(auth, name, list) }
	}
	for name, list := range m.header {
		if foldedAs(name, place) {
			continue
		}
		if err := b.refuseName(name); err != nil {
			return err
		}
		for _, value := range list {
			if err := b.refuseIn(auth, ours, value); err != nil && !(dropped(call, auth, name) && b.spare(call, auth, ours, value)) {
				return err
			}
		}
	}
	path, query, _ := strings.Cut(m.target, "?")
	number := -1
	for text := range strings.SplitSeq(path, "/") {
		if number++; number > 0 && number == segment {
			continue
		}
		if err := b.refuseIn(auth, ours, text); err != nil {
			return err
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if auth.Type == runtime.AuthQuery && strings.EqualFold(queryUnescape(key), auth.Query) {
			continue
		}
		if err := b.refuseIn(auth, ours, strings.ReplaceAll(pair, "+", " ")); err != nil {
			return err
		}
	}
	return nil
}

// refuseInPlace refuses a placeholder beside other text in the credential's place, where that
// leaves as the caller's own: the stored credential does not overwrite it there.
func (b *Backend) refuseInPlace(auth *runtime.Auth, s seen) error {
	var room [4]string
	ours := appendPlaceholders(room[:0], auth)
	for _, value := range s.place {
		if err := b.refuseIn(auth, ours, value); err != nil {
			return err
		}
	}
	return nil
}

// dropped reports whether the field is a customary one that never leaves, since the stored
// credential goes out in another field in its place: see [Backend.authenticate].
func dropped(call *runtime.Call, auth *runtime.Auth, name string) bool {
	return (foldedAs(name, "authorization") || foldedAs(name, "x-api-key")) &&
		auth.HeaderField() != "" && auth.Caller != runtime.CallerKeep && auth.KeepIf == "" && call.Credential.Found()
}

// spare reports whether a value is the service's own placeholder, and none of another, where the
// service would take its key too: many take a bearer token beside a field of their own.
func (b *Backend) spare(call *runtime.Call, auth *runtime.Auth, ours placeholders, value string) bool {
	var room [4]string
	own := false
	for _, r := range runtime.AppendReadings(room[:0], value, "") {
		if b.own(call, auth, ours, r) {
			own = true
		} else if _, known := b.o.Placeholders(r); known {
			return false
		}
	}
	return own
}

// refuseNames looks at the words of a head that are chosen as freely as a field's name: the
// method, and the trailer fields that it announces.
func (b *Backend) refuseNames(m *message) error {
	if err := b.refuseName(m.method); err != nil {
		return err
	}
	for _, name := range m.announced {
		if err := b.refuseName(name); err != nil {
			return err
		}
	}
	return nil
}

// refuseName looks for a placeholder in a name, which has no case of its own, nor marks at
// which it could be taken apart.
func (b *Backend) refuseName(name string) error {
	service, found := b.o.PlaceholderIn(name)
	if !found && strings.IndexByte(name, '%') >= 0 {
		service, found = b.o.PlaceholderIn(queryUnescape(name))
	}
	if found {
		return foreignPlaceholder(service)
	}
	return nil
}

// marks reports whether a field holds a placeholder, in its name or a value.
func (b *Backend) marks(auth *runtime.Auth, name string, list []string) bool {
	ours := appendPlaceholders(nil, auth)
	return b.refuseName(name) != nil ||
		slices.ContainsFunc(list, func(value string) bool { return b.refuseIn(auth, ours, value) != nil })
}

// refuseIn looks at a text, as it is and decoded, whole and in pieces.
func (b *Backend) refuseIn(auth *runtime.Auth, ours placeholders, text string) error {
	var room [8]string // of most texts, without a place on the heap
	look := appendPieces(runtime.AppendReadings(room[:0], text, ""), text)
	if strings.Contains(text, "%") {
		plain := queryUnescape(text)
		look = appendPieces(runtime.AppendReadings(look, plain, ""), plain)
	}
	if service, found := b.known(ours, look); found {
		return foreignPlaceholder(service)
	}
	if auth.Type != runtime.AuthPath {
		return nil
	}
	for _, p := range auth.Placeholders { // in a path it stands behind other letters
		if slices.ContainsFunc(look, func(text string) bool { return strings.Contains(text, p) }) {
			return foreignPlaceholder("")
		}
	}
	return nil
}

// appendPieces splits a text at what no token holds; one without such is added
// as it is already.
func appendPieces(list []string, text string) []string {
	from := 0
	for i := range len(text) {
		if !separates(text[i]) {
			continue
		}
		if i > from {
			list = append(list, text[from:i])
		}
		from = i + 1
	}
	if from > 0 && from < len(text) {
		list = append(list, text[from:])
	}
	return list
}

// separates reports whether no token holds the byte.
func separates(c byte) bool {
	switch c {
	case ' ', '\t', ';', ',', '=', '&', '"', '\'', '(', ')', ':', '<', '>', '[', ']', '{', '}', '?', '@', '|', '/':
		return true
	}
	return false
}

func foreignPlaceholder(service string) error {
	where := "its own service's place"
	if service != "" {
		where = "the place where " + runtime.Printable(service) + " takes its credential"
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonForeignPlaceholder,
		Msg:  fmt.Sprintf("the request holds a placeholder outside %s, where nothing would replace it", where),
		Hint: "send the placeholder only to its own service, in the field its SDK uses",
	}
}

// queryUnescape decodes what is a valid escape and returns anything else as it
// is.
func queryUnescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}
