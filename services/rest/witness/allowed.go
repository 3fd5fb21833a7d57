package witness

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// allowed are the declared changes of one direction. It holds what came against
// what left and names the first difference that none of them explains. A
// declaration is trusted only as far as its kind goes: "hop_by_hop" explains that
// TE is gone, not that Accept is.
type allowed struct {
	changes []runtime.Change
	answer  bool
	secret  string // lower case; "" when none went out
}

// has reports whether a change of that kind is declared for the name; "" is any.
func (a allowed) has(kind runtime.ChangeKind, name string) bool {
	return slices.ContainsFunc(a.changes, func(c runtime.Change) bool {
		return c.Answer == a.answer && c.Kind == kind && (name == "" || strings.EqualFold(c.Name, name))
	})
}

// undeclared is a difference that nothing explains. It names a place and holds
// no value.
func undeclared(format string, args ...any) error {
	return &runtime.Error{
		Code: runtime.CodeInternal,
		Msg:  "an undeclared change: " + fmt.Sprintf(format, args...),
		Hint: "this is a defect of kimbap, found by debug.mutations; please report it with this line",
	}
}

// request compares the two sides of a request to the canonical authority.
func (a allowed) request(came, left side, authority string) error {
	if came.method != left.method {
		return undeclared("the method")
	}
	if err := a.target(came.target, left.target); err != nil {
		return err
	}
	if !slices.Equal(came.fields["host"], left.fields["host"]) && !(a.has(runtime.ChangeHost, "host") && isHost(left.fields["host"], authority)) {
		return undeclared("the field host")
	}
	return a.fields(came, left)
}

// isHost reports whether a Host is the canonical authority, with or without a
// customary port.
func isHost(host []string, authority string) bool {
	return len(host) == 1 && (host[0] == authority || host[0]+":443" == authority || host[0]+":80" == authority)
}

// target compares request-targets.
func (a allowed) target(came, left string) error {
	if a.has(runtime.ChangeTarget, "") {
		if _, rest, absolute := strings.Cut(came, "://"); absolute {
			at := strings.IndexAny(rest+"/", "/?")
			came = rest[at:]
			if !strings.HasPrefix(came, "/") && left != "*" {
				came = "/" + came
			} else if came == "" {
				came = "*"
			}
		}
	}
	for _, c := range a.changes {
		if c.Kind == runtime.ChangeCredentialQuery && !c.Answer {
			came, left = withoutPairs(came, c.Name), withoutPairs(left, c.Name)
		}
		if c.Kind == runtime.ChangeCredentialPath && !c.Answer {
			came, left = withoutSegment(came, c.Name), withoutSegment(left, c.Name)
		}
	}
	if came != left {
		return undeclared("the target")
	}
	return nil
}

// withoutPairs is the target with no pair of that name.
func withoutPairs(target, name string) string {
	path, query, _ := strings.Cut(target, "?")
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(key); err == nil {
			key = plain
		}
		if pair != "" && !strings.EqualFold(key, name) {
			kept = append(kept, pair)
		}
	}
	return path + "?" + strings.Join(kept, "&")
}

// withoutSegment is the target with nothing where the segment of that number was.
func withoutSegment(target, number string) string {
	path, query, asked := strings.Cut(target, "?")
	segments := strings.Split(path, "/")
	if n, err := strconv.Atoi(number); err == nil && n > 0 && n < len(segments) {
		segments[n] = ""
	}
	if path = strings.Join(segments, "/"); asked {
		path += "?" + query
	}
	return path
}

// fields compares all fields but Host.
func (a allowed) fields(came, left side) error {
	names := maps.Clone(came.fields)
	maps.Copy(names, left.fields)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := came.fields[name], left.fields[name]
		if name == "host" && !a.answer || slices.Equal(was, is) {
			continue
		}
		if !a.explains(name, was, is, came) {
			return undeclared("the field %s, which came %d times and leaves %d times", a.printable(name), len(was), len(is))
		}
	}
	if was, is := came.framing(), left.framing(); was != is && !a.frames(was, is) {
		return undeclared("the framing, which was %q and is %q", runtime.Printable(was), runtime.Printable(is))
	}
	return nil
}

// printable is a name as it may be told.
func (a allowed) printable(name string) string {
	if a.secret != "" && strings.Contains(name, a.secret) {
		return "(withheld)"
	}
	return runtime.Printable(name)
}

// explains reports whether a declared change made the values was into is.
func (a allowed) explains(name string, was, is []string, came side) bool {
	if name == "content-length" || name == "transfer-encoding" {
		return true // compared as framing
	}
	if name == "trailer" && a.announcement(was, is) {
		return true
	}
	if len(is) == 0 && a.removes(name, came) {
		return true
	}
	switch {
	case a.has(runtime.ChangeHop, name) && name == "te":
		return slices.Equal(is, []string{"trailers"}) && strings.Contains(strings.ToLower(strings.Join(was, ",")), "trailers")
	case a.has(runtime.ChangeUpgrade, name) && name == "connection":
		return slices.Equal(is, []string{"Upgrade"})
	case a.has(runtime.ChangeUpgrade, name) && name == "upgrade":
		return len(is) == 1 && is[0] == strings.Join(was, ", ")
	case a.has(runtime.ChangeFraming, name) && name == "connection":
		return !a.answer && slices.Equal(is, []string{"close"})
	case a.has(runtime.ChangeCredential, name):
		return len(is) == 1
	case a.has(runtime.ChangeImplied, name):
		return len(was) == 0 && slices.Equal(is, []string{"no-cache"}) && slices.Contains(came.fields["pragma"], "no-cache")
	case a.has(runtime.ChangeScrubbed, name):
		return a.answer && slices.EqualFunc(was, is, func(w, i string) bool { return masks([]byte(w), []byte(i)) })
	}
	return false
}

// removes reports whether a declared change removed the field.
func (a allowed) removes(name string, came side) bool {
	folded := fold(name)
	switch {
	case a.has(runtime.ChangeHop, name):
		return slices.Contains([]string{"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"}, folded)
	case a.has(runtime.ChangeProxy, name):
		return strings.HasPrefix(folded, "proxy-")
	case a.has(runtime.ChangeKimbap, name):
		return strings.HasPrefix(folded, "x-kimbap-")
	case a.has(runtime.ChangeNamed, name):
		named := "," + fold(strings.Join(came.fields["connection"], ",")) + ","
		return strings.Contains(strings.NewReplacer(" ", "", "\t", "").Replace(named), ","+folded+",")
	case a.has(runtime.ChangeFraming, name):
		return name != folded && (folded == "host" || folded == "content-length")
	case a.has(runtime.ChangeMisleading, name), a.has(runtime.ChangeCallerKey, name):
		return !a.answer
	case a.has(runtime.ChangeScrubbedName, ""):
		return a.secret != "" && strings.Contains(name, a.secret)
	}
	return false
}

// announcement compares the names that Trailer lists.
func (a allowed) announcement(was, is []string) bool {
	before, after := tokens(was), tokens(is)
	for _, name := range after {
		if !slices.Contains(before, name) {
			return false
		}
	}
	for _, name := range before {
		scrubbed := a.secret != "" && strings.Contains(name, a.secret) && a.has(runtime.ChangeScrubbedName, "")
		if !slices.Contains(after, name) && !scrubbed && !slices.ContainsFunc(a.changes, func(c runtime.Change) bool {
			return c.Kind == runtime.ChangeTrailer && c.Answer == a.answer && fold(c.Name) == name
		}) {
			return false
		}
	}
	return true
}

// frames reports whether a declared change made one framing into the other.
func (a allowed) frames(was, is string) bool {
	switch {
	case a.answer:
		return is == "" && (was == "chunked" || a.has(runtime.ChangeFraming, "content-length"))
	case was == "" && is == "0":
		return a.has(runtime.ChangeFraming, "content-length")
	case was == "chunked" && is != "" && a.has(runtime.ChangeFraming, "transfer-encoding"):
		return true
	}
	return is != "" && (a.has(runtime.ChangeCredentialBody, "") || a.has(runtime.ChangePlaceholder, ""))
}

// trailer compares trailer fields.
func (a allowed) trailer(came, left side) error {
	for name, is := range left.fields {
		if was := came.fields[name]; !slices.Equal(was, is) && !a.explains(name, was, is, came) {
			return undeclared("the trailer field %s", a.printable(name))
		}
	}
	for name := range came.fields {
		scrubbed := a.secret != "" && strings.Contains(name, a.secret) && a.has(runtime.ChangeScrubbedName, "")
		if _, there := left.fields[name]; !there && !scrubbed && !a.has(runtime.ChangeTrailer, name) {
			return undeclared("the trailer field %s is gone", a.printable(name))
		}
	}
	return nil
}

// The folding of names and the reading of lists are written anew: with those of the
// code that makes the changes, a mistake in them would be on both sides and unseen.

// fold makes the names equal that some server takes for the same field.
func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// tokens reads a comma list of names, folded (RFC 9110 section 5.6.1).
func tokens(list []string) []string {
	out := strings.Split(fold(strings.Join(list, ",")), ",")
	for i := range out {
		out[i] = strings.Trim(out[i], " \t")
	}
	return slices.DeleteFunc(out, func(item string) bool { return item == "" })
}

// masks reports whether is is was with some bytes overwritten by asterisks.
func masks(was, is []byte) bool {
	return slices.EqualFunc(was, is, func(w, i byte) bool { return i == w || i == '*' })
}
