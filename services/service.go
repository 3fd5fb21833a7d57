package services

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// SchemaURL is where editors find the JSON Schema of service files, which
// services/export makes and docs/ holds.
const SchemaURL = "https://raw.githubusercontent.com/kimbap-run/kimbap/main/docs/service.schema.json"

// Head is what a service file says of the service itself, its actions left out.
type Head struct {
	Name         string
	Version      string
	Description  string
	Adapter      string   // http | command | applescript
	BaseURL      string   // scheme://host[:port][/prefix]; with its {vars} while these are not set
	Authorities  []string // canonical host:port, base_url's first; empty while variables are not set
	AllowHTTP    bool
	Strict       bool
	Auth         *runtime.Auth
	Placeholders map[string]string // environment variable → value, for `kimbap env`
	Aliases      []string
	Digest       string // hex SHA-256 of the file's bytes
	File         string
	Unset        []string // variables that [Prepare] must be given values for
}

// Service is one service file, checked and compiled. It is immutable after
// [Parse] and may be shared.
type Service struct {
	Head
	Actions  []*runtime.Action  // in the file's order
	Routes   []classifier.Route // empty while variables are not set
	Triggers Triggers
	Gotchas  []Gotcha
	Recipes  []Recipe
	Filters  []Filter // all jq expressions, which whoever runs them compiles
	Warnings Problems // what is no mistake, and will not work as it looks

	ready   []classifier.Prepared // Routes, compiled
	table   *classifier.Table     // of them alone
	origins []origin
	vars    []variable
}

// Filter is a jq expression of the file. Place is a problem there that says nothing yet.
type Filter struct {
	Expression string
	Place      Problem
}

// Triggers tell an agent when the service is the right one.
type Triggers struct{ TaskVerbs, Objects, InsteadOf []string }

// Gotcha is a known trap of the API and the way out of it.
type Gotcha struct {
	Symptom     string `json:"symptom"`
	LikelyCause string `json:"likely_cause"`
	Recovery    string `json:"recovery"`
	Severity    string `json:"severity"`
}

// Recipe is a task that takes several actions.
type Recipe struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Steps       []string `json:"steps"`
}

// Parse reads one service file. The file is the name that problems, routes and
// actions carry; it is not opened. The error is [Problems]: all of them, sorted
// by position.
func Parse(file string, data []byte) (*Service, error) { return parse(file, data, &room{}) }

// FiltersIn returns the filters of a service file, also of one that [Parse] refuses: what is
// wrong with them is to be said with the rest.
func FiltersIn(file string, data []byte) []Filter {
	s, _ := readAll(file, data, &room{})
	return s.Filters
}

// parse is Parse with the room for the tree, of which nothing is kept.
func parse(file string, data []byte, r *room) (*Service, error) {
	s, err := readAll(file, data, r)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// readAll is parse with what could be read beside the error.
func readAll(file string, data []byte, r *room) (*Service, error) {
	return readBy((*parser).service, file, data, r)
}

// parseHead is parse for the head alone: an eighth of the time. What is wrong with the actions
// it does not see.
func parseHead(file string, data []byte, r *room) (*Head, error) {
	s, err := readBy(func(p *parser, root *yaml.Node) { p.head(root) }, file, data, r)
	if err != nil {
		return nil, err
	}
	return &s.Head, nil
}

func readBy(read func(p *parser, root *yaml.Node), file string, data []byte, r *room) (*Service, error) {
	src := &source{file: file, room: r}
	sum := sha256.Sum256(data)
	s := &Service{Head: Head{File: file, Digest: hex.EncodeToString(sum[:])}}
	if root := src.read(data); root != nil {
		read(&parser{source: src, s: s}, root)
	}
	return s, src.done()
}

// Eased are the names of the actions that take, at lower risk, requests which another action
// of a former file took ([classifier.Eased]).
func (s *Service) Eased(former *Service) (names []string) {
	eased := classifier.Eased(s.Routes, former.Routes)
	for _, a := range s.Actions {
		if slices.Contains(eased, string(a.Ref)) {
			names = append(names, a.Name)
		}
	}
	return names
}

// Program is what runs the actions of a service that has no hosts, "" for others.
func (s *Service) Program() string {
	for _, a := range s.Actions {
		if a.Command != nil && a.Command.Script == nil {
			return a.Command.Executable
		} else if a.Command != nil {
			return "osascript"
		}
	}
	return ""
}

// parser builds one Service from its tree.
type parser struct {
	*source
	s       *Service
	program *program // of a command or applescript service; else nil

	definition definition // room for the one of the action that is read
	schemes    []reach    // of its routes, once asked for
	unread     []unread   // bodies of its actions
}

// serviceFields is every field of the top level, in the order of the format.
func serviceFields() []string {
	return []string{
		"name", "version", "description", "adapter", "base_url", "hosts", "vars", "allow_http", "strict", "aliases",
		"auth", "placeholders", "actions", "triggers", "gotchas", "recipes", "command_spec", "target_app",
	}
}

func (p *parser) service(root *yaml.Node) {
	o := p.head(root)
	if o == nil {
		return
	}
	p.actions(o)
	p.advice(o)
	if p.program == nil && len(p.problems) == 0 {
		p.overlaps(o)
	}
	if len(p.s.Unset) > 0 {
		p.s.Routes, p.s.ready, p.s.table = nil, nil, nil
	}
}

// head reads what is of the service itself and returns the object that has the rest, nil
// where the file has none.
func (p *parser) head(root *yaml.Node) *object {
	o := p.object(root, "service", serviceFields()...)
	if root.Kind != yaml.MappingNode {
		return nil
	}
	p.s.Adapter = o.oneOf("adapter", "http", "http", "command", "applescript")
	p.names(o)
	if p.s.Adapter != "http" {
		p.programs(o)
		return o
	}
	for _, field := range []string{"command_spec", "target_app"} {
		if n := o.get(field); n != nil {
			p.bad(n, "leave it out", "%s belongs to another adapter than http", field)
		}
	}
	p.s.AllowHTTP = o.boolean("allow_http", false)
	p.s.Strict = o.boolean("strict", false)
	p.variables(o)
	p.hosts(o)
	p.auth(o)
	p.placeholders(o)
	return o
}

func (p *parser) names(o *object) {
	p.s.Name = o.needed("name", "add name: with a short lower-case word, like github")
	if p.s.Name != "" {
		p.checkName(o.at("name"), "service.name", p.s.Name)
	}
	p.s.Version = o.needed("version", "add version: 1.0.0")
	if v := p.s.Version; v != "" && !isSemver(v) {
		p.bad(o.at("version"), "write it like 1.0.0", "service.version %s is not a semantic version", shown(v))
	}
	p.s.Description = o.text("description")
	for _, n := range o.list("aliases") {
		alias := p.textOf(n, "service.aliases")
		p.checkName(n, "an alias", alias)
		if alias == p.s.Name || slices.Contains(p.s.Aliases, alias) {
			p.bad(n, "remove it", "alias %s is given already", shown(alias))
		}
		p.s.Aliases = append(p.s.Aliases, alias)
	}
}

func (p *parser) checkName(n *yaml.Node, what, name string) {
	switch {
	case !isName(name):
		p.bad(n, "use lower-case letters, digits and hyphens, 64 at most, with a letter first", "%s %s is not a name", what, shown(name))
	case name == "net":
		p.bad(n, "choose another name", "%s may not be net: net.pass and net.tunnel are built in", what)
	}
}

// isName is [a-z][a-z0-9-]*, at most 64 bytes: it becomes a file name.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// isSemver follows semver.org 2.0.0.
func isSemver(s string) bool {
	s, build, hasBuild := strings.Cut(s, "+")
	s, pre, hasPre := strings.Cut(s, "-")
	if hasBuild && !identifiers(build, false) || hasPre && !identifiers(pre, true) {
		return false
	}
	parts := strings.Split(s, ".")
	return len(parts) == 3 && identifiers(s, true) && !slices.ContainsFunc(parts, func(n string) bool { return !digits(n) })
}

func identifiers(s string, noPadding bool) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || noPadding && digits(part) && len(part) > 1 && part[0] == '0' {
			return false
		}
		for i := range len(part) {
			if c := part[i]; !letter(c) && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// advice reads what is for agents and people only.
func (p *parser) advice(o *object) {
	if n := o.get("triggers"); n != nil {
		t := p.object(n, "triggers", "task_verbs", "objects", "instead_of")
		p.s.Triggers = Triggers{TaskVerbs: t.texts("task_verbs"), Objects: t.texts("objects"), InsteadOf: t.texts("instead_of")}
	}
	for _, n := range o.list("gotchas") {
		g := p.object(n, "gotcha", "symptom", "likely_cause", "recovery", "severity")
		p.s.Gotchas = append(p.s.Gotchas, Gotcha{
			Symptom:     g.needed("symptom", "say what one sees"),
			LikelyCause: g.text("likely_cause"),
			Recovery:    g.needed("recovery", "say what to do"),
			Severity:    g.oneOf("severity", "medium", "low", "medium", "high", "critical"),
		})
	}
	for _, n := range o.list("recipes") {
		r := p.object(n, "recipe", "name", "description", "steps")
		p.s.Recipes = append(p.s.Recipes, Recipe{
			Name: r.needed("name", "give it a name"), Description: r.text("description"), Steps: r.texts("steps"),
		})
	}
}

// overlaps compiles the routes of this file together. What is wrong with a
// single route was noted before.
func (p *parser) overlaps(o *object) {
	table, err := classifier.Join(p.s.ready)
	p.s.table = table
	if err == nil {
		p.untold()
	}
	for _, one := range split(err) {
		line, field, fix := o.at("actions").Line, "service.actions", "change one of the two, as this says"
		var overlap *classifier.OverlapError
		if errors.As(one, &overlap) {
			line = p.lineOf(overlap.Second.Source, line)
			_, field, _ = strings.Cut(overlap.Second.Action, ".")
		} else if errors.Is(one, classifier.ErrMoreOverlaps) {
			line, fix = len(p.split())+1, ""
		}
		p.badField(&yaml.Node{Line: line, Column: 1}, field, fix, "%s", one)
	}
}

func (p *parser) lineOf(source string, otherwise int) int {
	if n, err := strconv.Atoi(strings.TrimPrefix(source, p.file+":")); err == nil {
		return n
	}
	return otherwise
}

// split takes a joined error apart.
func split(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var out []error
	for _, one := range joined.Unwrap() {
		out = append(out, split(one)...)
	}
	return out
}

func (p *parser) sourceOf(n *yaml.Node) string { return p.file + ":" + strconv.Itoa(n.Line) }
