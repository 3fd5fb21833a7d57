package services

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// origin is one place a service lives at.
type origin struct{ scheme, authority string }

// variable is a part of base_url and hosts that whoever installs the service fills in.
type variable struct {
	name    string
	pattern *regexp.Regexp // anchored at both ends
	written string         // as it stands in the file
}

// sampleValue stands for a variable while the file is checked without values.
const sampleValue = "example"

func (p *parser) variables(o *object) {
	for _, v := range o.pairs("vars") {
		if !request.IsName(v.name) {
			p.bad(v.key, "use letters, digits and underscores", "%s is not a name for a variable", shown(v.name))
			continue
		}
		spec := p.object(v.value, "vars."+v.name, "pattern")
		written := spec.needed("pattern", `add pattern: "[a-z0-9-]+"`)
		re, err := regexp.Compile(written) // by itself: the message shows it
		if err == nil {
			re, err = regexp.Compile(`^(?:` + written + `)$`)
		}
		if err != nil {
			p.badPattern(spec.at("pattern"), "vars."+v.name+".pattern", err)
			continue
		}
		p.s.vars = append(p.s.vars, variable{v.name, re, written})
	}
}

func (p *parser) badPattern(n *yaml.Node, name string, err error) {
	why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	p.bad(n, "see https://github.com/google/re2/wiki/Syntax; in double quotes a backslash is written twice", "%s is not a valid pattern: %s", name, why)
}

// hosts reads base_url and hosts into origins, base_url's first.
func (p *parser) hosts(o *object) {
	if o.needed("base_url", "add base_url: https://api.example.com") != "" {
		p.baseURL(o.at("base_url"))
	}
	p.furtherHosts(o)
	for _, o := range p.s.origins {
		if len(p.s.Unset) == 0 && !slices.Contains(p.s.Authorities, o.authority) {
			p.s.Authorities = append(p.s.Authorities, o.authority)
		}
	}
}

func (p *parser) baseURL(n *yaml.Node) {
	p.s.BaseURL = n.Value
	u, err := url.Parse(p.filled(n))
	if err != nil || u.Host == "" || u.Opaque != "" {
		p.bad(n, "write it like https://api.example.com/v1", "service.base_url is not a URL with a host")
		return
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(n.Value, "#") {
		p.bad(n, "keep scheme, host, port and path only", "service.base_url may have no user, query or fragment")
		return
	}
	prefix := strings.TrimSuffix(u.EscapedPath(), "/")
	if prefix != "" && (strings.ContainsAny(prefix, "%;*{}") || classifier.CheckTarget(prefix) != nil) {
		p.bad(n, "write the path in plain letters, without . and .. and double slashes", "the path of service.base_url cannot be sent as it is")
		return
	}
	if first, ok := p.origin(n, u.Scheme, u.Host); ok {
		p.s.origins = []origin{first}
		if len(p.s.Unset) == 0 {
			p.s.BaseURL = first.scheme + "://" + withoutDefaultPort(first) + prefix
		}
	}
}

func (p *parser) furtherHosts(o *object) {
	for _, n := range o.list("hosts") {
		text := p.textOf(n, "service.hosts")
		if text == "" {
			if n.Kind == yaml.ScalarNode {
				p.bad(n, "write a host, like uploads.example.com, or remove it", "service.hosts has an empty host")
			}
			continue
		}
		host, clear := strings.CutPrefix(p.filled(n), "http://")
		scheme := "https"
		if clear {
			scheme = "http"
			if !p.s.AllowHTTP {
				p.bad(n, "write the host alone, or allow_http: true when the credential may go over cleartext", "a host with http:// needs allow_http: true")
				continue
			}
		}
		if strings.Contains(host, "/") {
			p.bad(n, "write it like uploads.example.com or uploads.example.com:8443", "a host has no scheme and no path")
			continue
		}
		next, ok := p.origin(n, scheme, host)
		if ok && slices.Contains(p.s.origins, next) {
			p.bad(n, "remove it", "host %s is given already", shown(text))
		} else if ok {
			p.s.origins = append(p.s.origins, next)
		}
	}
}

// hostFix is how a host is written.
const hostFix = "write a name or an address, with a port where it needs one, like api.example.com:8443"

// origin checks one scheme and host. Cleartext goes to loopback, or anywhere
// when the file says that it may.
func (p *parser) origin(n *yaml.Node, scheme, host string) (origin, bool) {
	if scheme != "https" && scheme != "http" {
		p.bad(n, "start it with https://", "the scheme must be https, and is %s", shown(scheme))
		return origin{}, false
	}
	authority, err := classifier.CanonicalAuthority(host, defaultPort(scheme))
	if err != nil {
		p.bad(n, hostFix, "%s: %s", shown(host), message(err))
		return origin{}, false
	}
	if scheme == "http" && !p.s.AllowHTTP && !IsLoopback(authority) {
		p.bad(n, "use https://; if the credential really may go over cleartext, add allow_http: true", "http:// is for loopback only")
		return origin{}, false
	}
	return origin{scheme, authority}, true
}

// filled puts samples in the place of variables and remembers which were there.
func (p *parser) filled(n *yaml.Node) string {
	out := n.Value
	for _, name := range holes(n.Value) {
		known := slices.ContainsFunc(p.s.vars, func(v variable) bool { return v.name == name })
		if !known {
			p.bad(n, "add vars: {"+name+`: {pattern: "[a-z0-9-]+"}}`, "{%s} is not among vars", name)
		}
		if !slices.Contains(p.s.Unset, name) {
			p.s.Unset = append(p.s.Unset, name)
		}
		out = strings.ReplaceAll(out, "{"+name+"}", sampleValue)
	}
	return out
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

func withoutDefaultPort(o origin) string {
	return strings.TrimSuffix(o.authority, ":"+defaultPort(o.scheme))
}

// IsLoopback reports whether an authority is this machine.
func IsLoopback(authority string) bool {
	host := authority[:strings.LastIndexByte(authority, ':')]
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// message is the part of a classifier's error that is for people.
func message(err error) string {
	if e, ok := err.(*classifier.Error); ok {
		return e.Msg
	}
	return err.Error()
}

// CanonicalAuthorities returns the canonical form of hosts that a person wrote
// (host or host:port, https unless a port says otherwise), without repeats, in
// the given order. The error names the host.
func CanonicalAuthorities(hosts []string) ([]string, error) {
	var out []string
	var problems Problems
	for _, host := range hosts {
		authority, err := classifier.CanonicalAuthority(host, "443")
		if name, isCommand := strings.CutPrefix(host, runtime.CommandAuthority("")); isCommand && isName(name) {
			authority, err = host, nil
		}
		if err != nil {
			problems = append(problems, Problem{File: shown(host), Msg: message(err), Fix: "write it like api.example.com or api.example.com:8443"})
		} else if !slices.Contains(out, authority) {
			out = append(out, authority)
		}
	}
	return out, problems.orNil()
}

// fillVariables writes the values of variables into base_url and hosts, and
// changes no other byte of the file: comments and order stay.
func fillVariables(s *Service, file string, data []byte, vars map[string]string) ([]byte, error) {
	problems := checkValues(s, file, vars)
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	if len(s.Unset) == 0 {
		return data, nil
	}
	var doc yaml.Node
	if err := decode(yaml.NewDecoder(bytes.NewReader(data)), &doc); err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(data), "\n")
	nodes := places(doc.Content[0])
	slices.Reverse(nodes) // from the end, so that columns before stay right
	for _, n := range nodes {
		filled := n.Value
		for _, name := range holes(n.Value) {
			filled = strings.ReplaceAll(filled, "{"+name+"}", vars[name])
		}
		if filled == n.Value {
			continue
		}
		line := []rune(lines[n.Line-1])
		head, tail := string(line[:n.Column-1]), string(line[n.Column-1:])
		if !strings.Contains(tail, n.Value) {
			return nil, Problems{{File: file, Line: n.Line, Column: n.Column, Msg: "the variables of this value cannot be filled in", Fix: "write it on one line, without escapes"}}
		}
		lines[n.Line-1] = head + strings.Replace(tail, n.Value, filled, 1)
	}
	return []byte(strings.Join(lines, "")), nil
}

// places are the values that variables may stand in, in the file's order.
func places(root *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch value := root.Content[i+1]; root.Content[i].Value {
		case "base_url":
			out = append(out, value)
		case "hosts":
			out = append(out, value.Content...)
		}
	}
	slices.SortFunc(out, func(a, b *yaml.Node) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return out
}

func checkValues(s *Service, file string, vars map[string]string) Problems {
	var problems Problems
	note := func(fix, format string, args ...any) {
		problems = append(problems, Problem{File: file, Msg: fmt.Sprintf(format, args...), Fix: fix})
	}
	for _, name := range sortedKeys(vars) {
		if !slices.ContainsFunc(s.vars, func(v variable) bool { return v.name == name }) {
			note("leave --var "+name+" out", "the service %s has no variable %s", s.Name, shown(name))
		}
	}
	for _, v := range s.vars {
		value, given := vars[v.name]
		switch {
		case !given && slices.Contains(s.Unset, v.name):
			note("add --var "+v.name+"=…", "the service %s needs a value for its variable %s", s.Name, v.name)
		case !given:
		case !v.pattern.MatchString(value):
			note("the pattern is "+v.written, "the value of the variable %s does not match its pattern", v.name)
		case !hostText(value):
			note("use letters, digits, dots, hyphens and a port only", "the value of the variable %s cannot stand in a host", v.name)
		}
	}
	return problems
}

// hostText keeps a value from ending the host: no slash, no "@", no "?" or "#".
func hostText(s string) bool {
	for i := range len(s) {
		if c := s[i]; !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune(".-_:", rune(c)) {
			return false
		}
	}
	return s != ""
}
