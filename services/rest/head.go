package rest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// hopFields are for one connection only (RFC 9110 section 7.6.1).
var hopFields = [...]string{"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"}

// framingFields say where a message ends or goes; they may not stand in a
// trailer (RFC 9110 section 6.5.1).
var framingFields = [...]string{
	"content-length", "host", "content-encoding", "content-type", "content-range", "expect", "max-forwards", "cache-control", "range",
}

// callersOwn fields say who a caller is. In the trailer of an answer they have
// no meaning, but a client that merges trailers would take them for its own.
var callersOwn = [...]string{"authorization", "cookie"}

// proxyStatus is the one field of proxies that is for the caller: each proxy on the way
// adds to it, in the head of an answer or in its trailer (RFC 9209 section 2).
const proxyStatus = "Proxy-Status"

// misleading fields make some servers act on another target or method than the
// one that was judged.
var misleading = [...]string{
	"x-original-url", "x-original-uri", "x-original-host", "x-original-method", "x-rewrite-url", "x-forwarded-host",
	"x-forwarded-server", "x-forwarded-uri", "x-forwarded-url", "x-forwarded-path", "x-forwarded-prefix",
	"x-forwarded-method", "x-http-host-override", "x-host", "x-http-method-override", "x-http-method", "x-method-override",
	"x-original-path", "x-override-url", "x-rewrite-uri", "x-envoy-original-path", "x-envoy-original-host", "x-envoy-original-method",
	"x-waws-unencoded-url", "x-http-destinationurl", "forwarded",
}

// fold makes the names equal that some server takes for the same field: case,
// and "_" for "-" (CGI turns both into one variable).
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// foldedAs reports whether the name folds to folded, which is folded already. It
// is fold without its copy, since every field of every message is compared.
func foldedAs(name, folded string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 0x80:
			return fold(name) == folded // not a field name, but that is for others to say
		case i == len(folded):
			return false
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != folded[i] {
			return false
		}
	}
	return len(name) == len(folded)
}

// begins reports whether the folded name begins with the prefix, which is folded
// already.
func begins(name, prefix string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 0x80:
			return strings.HasPrefix(fold(name), prefix)
		case i == len(prefix):
			return true
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != prefix[i] {
			return false
		}
	}
	return len(name) == len(prefix)
}

// ordinary reports whether no name of the lists above, and none that begins with
// "proxy-", begins with the letter that this one does: so it is with many fields of
// every message, which then are compared with none.
func ordinary(name string) bool {
	if name == "" || name[0] >= 0x80 {
		return false
	}
	switch name[0] | 0x20 { // in lower case, if it is a letter
	case 'c', 'f', 'h', 'k', 'p', 't', 'u', 'x':
		return false
	}
	return true
}

// canonical reports whether a name is spelled as net/textproto spells it, with no
// "_" that could pass for "-". Where all names of a head are, a field has one
// spelling: the one that [keyOf] gives.
func canonical(name string) bool {
	upper := true
	for i := range len(name) {
		c := name[i]
		if c >= 0x80 || c == '_' || upper && 'a' <= c && c <= 'z' || !upper && 'A' <= c && c <= 'Z' {
			return false
		}
		upper = c == '-'
	}
	return true
}

// keyOf is the key of a field in a head of canonical names.
func keyOf(name string) string {
	if canonical(name) {
		return name
	}
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// among reports whether the name folds to one of the list's.
func among(name string, list []string) bool {
	for _, folded := range list {
		if foldedAs(name, folded) {
			return true
		}
	}
	return false
}

// remove deletes a field under all its spellings and returns those that were
// there.
func remove(h http.Header, name string) []string {
	var found []string
	folded := fold(name)
	for key := range h {
		if foldedAs(key, folded) {
			delete(h, key)
			found = append(found, key)
		}
	}
	return found
}

// values returns the values of a field, whose name is folded, under all its
// spellings.
func values(h http.Header, folded string) []string {
	var all []string
	for key, list := range h {
		switch {
		case !foldedAs(key, folded):
		case all == nil:
			all = list[:len(list):len(list)]
		default:
			all = append(all, list...)
		}
	}
	return all
}

// cleanRequest copies the fields of a caller's request that are for the
// upstream, and says whether all their names are [canonical]. Named is what its
// Connection names ([tokens]).
func cleanRequest(h http.Header, named []string, action *runtime.Action, result *runtime.Result) (out http.Header, plain bool) {
	out, plain = make(http.Header, len(h)+1), true
	values, trailers := make([]string, 0, len(h)), false
	for name, list := range h {
		if name == "Host" || name == "Content-Length" { // the message has both in its own words
			continue
		}
		kind := removal(name, named)
		if kind == "" && !action.Ref.Foreign() && !ordinary(name) && among(name, misleading[:]) {
			kind = runtime.ChangeMisleading
		}
		if kind == "" {
			from := len(values)
			values = append(values, list...) // one room for the values of all
			out[name] = values[from:len(values):len(values)]
			plain = plain && canonical(name)
		} else {
			result.Declare(runtime.Change{Kind: kind, Name: name})
			trailers = trailers || foldedAs(name, "te") && slices.Contains(tokens(list), "trailers")
		}
	}
	if trailers {
		out["Te"] = []string{"trailers"}
	}
	return out, plain
}

// removal says why a field of a request is not passed on, "" when it is.
func removal(name string, named []string) runtime.ChangeKind {
	switch {
	case ordinary(name):
		if among(name, named) {
			return runtime.ChangeNamed
		}
	case among(name, hopFields[:]):
		return runtime.ChangeHop
	case begins(name, "proxy-"):
		return runtime.ChangeProxy
	case among(name, named):
		return runtime.ChangeNamed
	case foldedAs(name, "host"), foldedAs(name, "content-length"):
		return runtime.ChangeFraming
	case begins(name, "x-kimbap-"):
		return runtime.ChangeKimbap
	}
	return ""
}

// silence keeps net/http from adding a User-Agent, and from dropping all but
// the first when there are several.
func silence(h http.Header) {
	agents := h["User-Agent"]
	if len(agents) == 1 && agents[0] != "" {
		return
	}
	if len(agents) > 0 {
		h["user-agent"] = agents // a spelling that net/http writes as it is
	}
	h["User-Agent"] = []string{""}
}

// cleanAnswer takes from an answer the fields that are not for the caller. Names
// are as net/textproto spells them, whichever engine has read them.
func (x *exchange) cleanAnswer(h http.Header, status int) {
	if implied(h) {
		x.declare(runtime.ChangeImplied, "Cache-Control")
	}
	named := tokens(h["Connection"])
	slices.Sort(named) // an upstream may name very many
	for name := range h {
		switch {
		case ordinary(name) && !in(named, name):
			continue
		case among(name, hopFields[:]):
			x.declare(runtime.ChangeHop, name)
		case begins(name, "proxy-") && name != proxyStatus:
			x.declare(runtime.ChangeProxy, name)
		case in(named, name):
			x.declare(runtime.ChangeNamed, name)
		case foldedAs(name, "content-length") && (status < 200 || status == http.StatusNoContent):
			x.declare(runtime.ChangeFraming, name)
		default:
			continue
		}
		delete(h, name)
	}
}

// in reports whether the name folds to one of a sorted list of folded names.
func in(sorted []string, name string) bool {
	if len(sorted) < few {
		return among(name, sorted)
	}
	_, found := slices.BinarySearch(sorted, fold(name))
	return found
}

// few names are compared one by one: a search needs a copy of the name.
const few = 8

// implied reports whether net/http may have added the Cache-Control of a head:
// it reads one out of Pragma, and does not say so.
func implied(h http.Header) bool {
	pragma, control := h["Pragma"], h["Cache-Control"]
	return len(pragma) > 0 && pragma[0] == "no-cache" && len(control) == 1 && control[0] == "no-cache"
}

// declare notes a change of the answer, where a witness compares it: an upstream may
// have us drop very many fields, in each of its 1xx answers too. A name that holds the
// credential is not written down.
func (x *exchange) declare(kind runtime.ChangeKind, name string) {
	if x.witness == nil {
		return
	}
	if x.message.scrub.InName(name) {
		kind, name = runtime.ChangeScrubbedName, ""
	}
	x.result.Declare(runtime.Change{Kind: kind, Name: name, Answer: true})
}

// cleanTrailer copies the trailer fields that are allowed, and tells dropped of
// the others.
func cleanTrailer(h http.Header, dropped func(name string), allowed func(name string) bool) http.Header {
	if len(h) == 0 {
		return nil
	}
	out := make(http.Header, len(h))
	for name, list := range h {
		if allowed(name) {
			out[name] = slices.Clone(list)
		} else {
			dropped(name)
		}
	}
	return out
}

// trailerAllowed reports whether a trailer field is passed on. Private ones are
// credentials, which no trailer may carry past the check of the head.
func trailerAllowed(name string, private []string) bool {
	folded := fold(name)
	return http1.IsToken(name) && !slices.Contains(hopFields[:], folded) && !slices.Contains(framingFields[:], folded) &&
		!strings.HasPrefix(folded, "proxy-") && !strings.HasPrefix(folded, "x-kimbap-") &&
		!slices.ContainsFunc(private, func(p string) bool { return fold(p) == folded })
}

// endsAnswer is trailerAllowed for the answers.
func endsAnswer(name string) bool { return name == proxyStatus || trailerAllowed(name, callersOwn[:]) }

// tokens reads a comma list of names, folded (RFC 9110 section 5.6.1).
func tokens(list []string) []string {
	out := http1.List(list)
	for i, item := range out {
		out[i] = fold(item)
	}
	return out
}

// upgradeOf returns the protocol a caller asks to switch to, "" for none. h2c
// is never passed on: what follows it could not be judged. Named is what its
// Connection names ([tokens]).
func upgradeOf(h http.Header, named []string) string {
	if !slices.Contains(named, "upgrade") {
		return ""
	}
	list := values(h, "upgrade")
	if asked := tokens(list); len(asked) == 0 || slices.Contains(asked, "h2c") {
		return ""
	}
	return strings.Join(list, ", ")
}
