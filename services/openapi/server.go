package openapi

import (
	"fmt"
	"net/netip"
	"net/url"
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
// cleartext. The base a person gave wins.
func (d *document) server(given string) (*server, error) {
	candidates := d.addresses()
	if given != "" {
		candidates = []value{{v: map[string]any{"url": given}}}
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

// addresses are the servers of the document, as OpenAPI 3 writes them.
func (d *document) addresses() []value {
	if d.dialect == openAPI {
		return d.root.list("servers")
	}
	host := d.root.text("host")
	if host == "" {
		return nil
	}
	schemes := d.root.texts("schemes")
	if len(schemes) == 0 || slices.Contains(schemes, "https") {
		schemes = []string{"https"}
	}
	return []value{{v: map[string]any{"url": schemes[0] + "://" + host + d.root.text("basePath")}}}
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([^{}]*)\}`) })

func readServer(v value) (*server, error) {
	s := &server{}
	address := v.text("url")
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return nil, fmt.Errorf("the server %s is no whole address", shown(address))
	}
	host, path, _ := strings.Cut(rest, "/")
	defaults := v.get("variables")
	path = variable().ReplaceAllStringFunc(path, func(hole string) string { return defaults.get(hole[1 : len(hole)-1]).text("default") })
	for _, m := range variable().FindAllStringSubmatch(host, -1) {
		name := argName(m[1])
		host = strings.ReplaceAll(host, m[0], "{"+name+"}")
		s.vars = append(s.vars, pair{name, variablePattern(defaults.get(m[1]))})
	}
	s.host = variable().ReplaceAllString(host, "x")
	s.base, s.prefix = scheme+"://"+host, strings.TrimRight("/"+path, "/")
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
// host's name.
func variablePattern(v value) string {
	var quoted []string
	for _, one := range v.texts("enum") {
		quoted = append(quoted, regexp.QuoteMeta(one))
	}
	if quoted == nil {
		return "[a-z0-9-]+"
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
	return slices.ContainsFunc(own, func(address string) bool { return slices.Contains(homes, strings.TrimRight(address, "/")) })
}
