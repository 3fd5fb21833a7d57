package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/services"
)

// auth is how the service file says where the credential goes.
type auth struct {
	typ   string // none, bearer, basic, header, query, body, oauth2 of a client itself
	name  string // of the header field, the query parameter or the member; where its tokens come from
	notes []string
}

// auth is what a person asked for, else the security scheme that most of the
// operations ask for.
func (d *document) auth(given string, list []*operation) (*auth, error) {
	if given != "" {
		return givenAuth(given)
	}
	schemes := d.root.get("components").get("securitySchemes")
	if d.dialect == swagger {
		schemes = d.root.get("securityDefinitions")
	}
	if at, err := d.follow(schemes); err == nil {
		schemes = at
	}
	count, wanted := d.wanted(list)
	if len(count) == 0 { // described, and asked for by none
		for name := range schemes.members() {
			count[name]++
		}
	}
	known := map[string]*auth{}
	for name := range count {
		if scheme, err := d.object(schemes.get(name)); err == nil {
			known[name] = readScheme(name, scheme)
		} else {
			known[name] = &auth{}
		}
	}
	return firstKnown(known, wanted, slices.SortedFunc(maps.Keys(count), func(x, y string) int {
		return cmp.Or(count[y]-count[x], known[x].place()-known[y].place(), strings.Compare(x, y))
	})), nil
}

// wanted counts the operations that ask for each scheme, and lists what is wanted together.
// A list that many share, as that of the document, is looked at once.
func (d *document) wanted(list []*operation) (count map[string]int, together []map[string]any) {
	count = map[string]int{}
	look := func(alternatives []any, times int) {
		for _, one := range alternatives {
			names, _ := one.(map[string]any)
			together = append(together, names)
			for name := range names {
				count[name] += times
			}
		}
	}
	lists, times := map[*any][]any{}, map[*any]int{}
	for _, o := range list {
		needs := o.object.get("security")
		if needs.v == nil {
			needs = d.root.get("security")
		}
		if alternatives, _ := needs.v.([]any); len(alternatives) > 0 {
			lists[&alternatives[0]] = alternatives
			times[&alternatives[0]]++
		}
	}
	for at, alternatives := range lists {
		look(alternatives, times[at])
	}
	return count, together
}

// place ranks what is asked for equally often: a key in an address stands in the logs of
// servers, and a field beside Authorization may be for something else (another user's name, a
// code of a second factor).
func (a *auth) place() int {
	switch {
	case a == nil || a.typ == "query":
		return 3
	case a.typ == "header" && !strings.EqualFold(a.name, "Authorization"):
		return 2
	case a.typ == "header", a.typ == "oauth2":
		return 1
	}
	return 0
}

// firstKnown is the first that can be filled in, with what is to be said of the others.
func firstKnown(known map[string]*auth, wanted []map[string]any, ranked []string) *auth {
	out, beside := &auth{typ: "none"}, map[string]bool(nil)
	for _, name := range ranked {
		a := known[name]
		if a != nil && a.typ == "" {
			out.notes = append(out.notes, fmt.Sprintf("the security scheme %s cannot be read: say it with --auth bearer, or correct auth: in the file", shown(name)))
			continue
		}
		if a == nil {
			out.notes = append(out.notes, fmt.Sprintf("the security scheme %s is of a kind that cannot be filled in", shown(name)))
			continue
		}
		if out.typ == "none" {
			out.typ, out.name, beside = a.typ, a.name, neverWithout(wanted, name)
			if a.typ == "header" && strings.EqualFold(a.name, "Authorization") {
				out.notes = append(out.notes, `the document does not say what stands before the key in Authorization: add it to auth: in the file, as in header: {name: Authorization, prefix: "Token "}`)
			}
			if a.typ == "oauth2" {
				out.notes = append(out.notes, fmt.Sprintf("the API takes tokens of a client itself: kimbap link asks for its id and secret, which go to %s; add scopes, params: {audience: …} or client_auth: post to auth.oauth2 where the provider wants them", shown(a.name)))
			}
		} else if other := a.typ != out.typ || a.name != out.name; other && beside[name] {
			out.notes = append(out.notes, fmt.Sprintf("the API wants the security scheme %s beside %s, which alone the service fills in: programs must send the other themselves", shown(name), out))
		} else if other {
			out.notes = append(out.notes, fmt.Sprintf("some operations may be used with the security scheme %s as well; the service has one: %s", shown(name), out))
		}
	}
	if len(ranked) == 0 {
		out.notes = append(out.notes, "the document does not say how to authenticate: say it with --auth bearer, or correct auth: in the file")
	}
	return out
}

// neverWithout are the schemes that are wanted, and wherever they are, with that other.
func neverWithout(wanted []map[string]any, other string) map[string]bool {
	out := map[string]bool{}
	for _, with := range []bool{true, false} {
		for _, together := range wanted {
			if _, has := together[other]; has != with {
				continue
			}
			for name := range together {
				out[name] = with
			}
		}
	}
	return out
}

func (a *auth) String() string { return strings.TrimSuffix(a.typ+":"+a.name, ":") }

// readScheme reads a security scheme; nil for one that cannot be filled in. Swagger 2.0 has no
// word for a bearer token: such documents say it in what people read.
func readScheme(called string, v value) *auth {
	name := v.text("name")
	switch v.text("type") {
	case "basic":
		return &auth{typ: "basic"}
	case "http":
		switch strings.ToLower(v.text("scheme")) {
		case "bearer":
			return &auth{typ: "bearer"}
		case "basic":
			return &auth{typ: "basic"}
		}
	case "oauth2":
		if at := clientsOwn(v); at != "" {
			return &auth{typ: "oauth2", name: at}
		}
		return &auth{typ: "bearer"}
	case "openIdConnect":
		return &auth{typ: "bearer"}
	case "apiKey":
		switch v.text("in") {
		case "header":
			if strings.EqualFold(name, "Authorization") && strings.Contains(strings.ToLower(called+" "+v.text("description")), "bearer") {
				return &auth{typ: "bearer"}
			}
			if fieldName().MatchString(name) && !(slices.Contains(ownFields(), http.CanonicalHeaderKey(name)) && !strings.EqualFold(name, "Authorization")) {
				return &auth{typ: "header", name: name}
			}
		case "query":
			if name != "" {
				return &auth{typ: "query", name: name}
			}
		}
	}
	return nil
}

// clientsOwn is where a client itself is given tokens, if there is no other way to one; "" else, and
// where that is no address that a service file takes.
func clientsOwn(v value) string {
	flows := v.get("flows").members()
	at := v.get("flows").get("clientCredentials").text("tokenUrl")
	if v.text("flow") == "application" { // Swagger 2.0
		at = v.text("tokenUrl")
	} else if len(flows) != 1 {
		return ""
	}
	if (&auth{typ: "oauth2", name: at}).fault() != "" || !strings.HasPrefix(at, "https://") {
		return ""
	}
	return at
}

// fault is what is wrong with it in a service file, "" for nothing.
func (a *auth) fault() string {
	own := &service{name: "x", auth: a}
	_, err := services.Parse("x.yaml", []byte("name: x\nversion: 1.0.0\nbase_url: https://x.test\nauth: "+own.authText()+"\nactions:\n"+catchAlls))
	var problems services.Problems
	switch {
	case errors.As(err, &problems):
		return problems[0].Msg
	case err != nil:
		return err.Error()
	}
	return ""
}

func givenAuth(given string) (*auth, error) {
	typ, name, _ := strings.Cut(given, ":")
	switch typ {
	case "none", "bearer", "basic":
		if name == "" {
			return &auth{typ: typ}, nil
		}
	case "header", "query", "body":
		if a := (&auth{typ: typ, name: name}); name != "" {
			if why := a.fault(); why != "" {
				return nil, fmt.Errorf("--auth %s cannot be: %s", shown(given), why)
			}
			return a, nil
		}
	}
	return nil, fmt.Errorf("--auth takes none, bearer, basic, header:NAME, query:NAME or body:FIELD, not %s", shown(given))
}

// carries reports whether a parameter is the place of the credential: it is
// kimbap that fills it, so it is no argument.
func (a *auth) carries(p parameter) bool {
	if a.typ == "none" {
		return false
	}
	if (p.in == "header" || p.in == "query") && a.typ == p.in && strings.EqualFold(a.name, p.name) {
		return true
	}
	if p.in == "formData" && a.inBody(p.name) {
		return true
	}
	isToken := slices.Contains([]string{"token", "access_token", "api_key", "apikey", "api_token"}, strings.ToLower(p.name))
	text := strings.ToLower(p.description)
	return p.in != "path" && isToken && (strings.HasPrefix(text, "authentication token") || strings.HasPrefix(text, "auth token") || strings.HasPrefix(text, "your api") || strings.HasPrefix(text, "api key"))
}

func (a *auth) inBody(member string) bool { return a.typ == "body" && a.name == member }
