package openapi

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// server is where the API lives.
type server struct {
	base   string // scheme://host[:port], with {vars}
	host   string // host[:port], with samples for variables
	prefix string // path, "" when there is none
	vars   []pair // name, pattern
}

// server chooses the first https address of the document; a loopback one may be
// cleartext. The base a person gave wins. Where it has no path, and the document has
// nothing but one, the base stands for the place that the document comes from.
func (d *document) server(given string) (*server, error) {
	candidates := []value{{v: map[string]any{"url": given}}}
	stated := d.stated()
	if at, err := url.Parse(given); err == nil && at.Host != "" && at.Path == "" && len(stated) > 0 && rooted(stated[0].text("url")) {
		d.at = at
		given = ""
	}
	if given == "" {
		candidates = d.addresses()
	}
	var first error
	for _, c := range candidates {
		s, err := readServer(c)
		if err == nil {
			return s, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("the document names no server")
	}
	return nil, first
}

// addresses are the servers of the document, whole where it was fetched from an address. One
// that names none means the place that it comes from.
func (d *document) addresses() []value {
	stated := d.stated()
	if d.at == nil {
		return stated
	}
	if len(stated) == 0 {
		stated = []value{{v: map[string]any{"url": "/"}}}
	}
	whole := make([]value, len(stated))
	for i, one := range stated {
		whole[i] = value{in: one.in, v: map[string]any{"url": d.absolute(one.text("url")), "variables": one.get("variables").v}}
	}
	return whole
}

// stated are the servers as the document has them, written as in OpenAPI 3.
func (d *document) stated() []value {
	if d.dialect == openAPI {
		return d.root.list("servers")
	}
	host, base := d.root.text("host"), d.root.text("basePath")
	if host == "" && base == "" {
		return nil
	}
	if base != "" { // without a slash it would be the end of the host's name
		base = "/" + strings.TrimPrefix(base, "/")
	}
	if host == "" {
		return []value{{v: map[string]any{"url": base}}}
	}
	schemes := d.root.texts("schemes")
	if len(schemes) == 0 || slices.Contains(schemes, "https") {
		schemes = []string{"https"}
	}
	return []value{{v: map[string]any{"url": schemes[0] + "://" + host + base}}}
}

// absolute is an address that a server states, which may be relative to where the document was
// fetched from (OpenAPI 3.1.1, section 4.6.2; Swagger 2.0, the field host). It is text and not
// parsed: variables stand in it.
func (d *document) absolute(address string) string {
	if d.at == nil || strings.Contains(address, "://") || strings.HasPrefix(address, "//") {
		return address
	}
	if !rooted(address) {
		address = path.Join("/", path.Dir(d.at.Path), address)
	}
	return d.at.Scheme + "://" + d.at.Host + address
}

// rooted reports whether an address is a path alone, from its root on.
func rooted(address string) bool {
	return strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([^{}]*)\}`) })

func readServer(v value) (*server, error) {
	s := &server{}
	address := v.text("url")
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return nil, fmt.Errorf("the server %s is no whole address", shown(address))
	}
	host, below, _ := strings.Cut(rest, "/")
	alone, _, _ := strings.Cut(host, ":")
	defaults := v.get("variables")
	below = variable().ReplaceAllStringFunc(below, func(hole string) string { return defaults.get(hole[1 : len(hole)-1]).text("default") })
	called := map[string]string{}
	for _, m := range variable().FindAllStringSubmatch(host, -1) {
		name := argName(m[1])
		if other, have := called[name]; have && other == m[1] {
			continue
		} else if have {
			return nil, fmt.Errorf("the server %s has two variables that are called alike", shown(address))
		}
		called[name] = m[1]
		host = strings.ReplaceAll(host, m[0], "{"+name+"}")
		s.vars = append(s.vars, pair{name, variablePattern(defaults.get(m[1]), m[0] == alone)})
	}
	s.host = variable().ReplaceAllString(host, "x")
	s.base, s.prefix = scheme+"://"+host, strings.TrimRight("/"+below, "/")
	u, err := url.Parse(scheme + "://" + s.host + s.prefix)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the server %s is no address of a service", shown(address))
	case scheme != "https" && !(scheme == "http" && loopback(u.Hostname())):
		return nil, fmt.Errorf("the server %s is not https", shown(address))
	}
	return s, nil
}

// variablePattern admits the values that a document lists, else one label of a
// host's name, or several where it is the whole name or the document has several.
func variablePattern(v value, alone bool) string {
	var quoted []string
	for _, one := range v.texts("enum") {
		quoted = append(quoted, regexp.QuoteMeta(one))
	}
	const label = "[a-z0-9-]+"
	switch {
	case quoted == nil && (alone || strings.Contains(v.text("default"), ".")):
		return label + `(\.` + label + ")*"
	case quoted == nil:
		return label
	}
	return strings.Join(quoted, "|")
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// sameServer reports whether one of an operation's own servers is the one of the
// file: the document's first that can be one, in the place of which a person may
// have given another, or that one itself. Of several in a document each is a place
// of its own, as a sandbox is beside what is real.
func (p *planner) sameServer(own []string) bool {
	var homes []string
	if p.given != "" {
		homes = append(homes, strings.TrimRight(p.given, "/"))
	}
	for _, c := range p.addresses() {
		if _, err := readServer(c); err == nil || len(p.addresses()) == 1 {
			homes = append(homes, strings.TrimRight(c.text("url"), "/"))
			break
		}
	}
	return slices.ContainsFunc(own, func(address string) bool {
		return slices.Contains(homes, strings.TrimRight(p.absolute(address), "/"))
	})
}
