package openapi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// SchemaURL is where editors find the JSON Schema of service files.
const SchemaURL = services.SchemaURL

// Options say what to import, and how.
type Options struct {
	Files      fs.FS    // the document's folder: a $ref leads nowhere else; nil: nowhere at all
	Document   string   // its name there
	Data       []byte   // the document itself, when it does not stand in a folder
	At         *url.URL // where it was fetched from, to which its servers may be relative; nil for a file
	From       string   // how messages and the file call it; Document when empty
	Tags       []string // only operations with one of them; empty: all
	PathPrefix string   // only operations below it; empty: all
	Name       string   // of the service; empty: from the host, else the title
	Auth       string   // none, bearer, basic, header:NAME, query:NAME, body:FIELD; empty: from the document
	BaseURL    string   // empty: the document's first https server
}

// Import makes a service file. The error is a [*runtime.Error] when no
// operation at all can be imported; what is wrong with one operation is in the
// result.
func Import(o Options) (*Result, error) {
	if o.From == "" {
		o.From = o.Document
	}
	l := newLibrary(o.Files)
	if o.Data != nil {
		if err := l.hold(o.Document, o.Data); err != nil {
			return nil, o.refuse(err, "")
		}
	}
	d, err := openDocument(l, o.Document)
	if err != nil {
		return nil, o.refuse(err, "")
	}
	d.at = o.At
	i := &importer{o: o, d: d, r: &Result{}}
	chosen, unread, others, names := i.choose()
	if len(chosen) == 0 && (others == 0 || len(unread) > 0) && len(i.r.Skipped) > 0 {
		return nil, o.refuse(errors.New("no operation could be imported\n"+i.r.Report()), mend)
	}
	if len(chosen) == 0 {
		return nil, o.refuse(errors.New("no operation is left to import"), i.has())
	}
	s, err := i.service(chosen)
	if err != nil {
		return nil, err
	}
	p := &planner{document: d, auth: s.auth, base: s.server.base, prefix: s.server.prefix, given: o.BaseURL, lost: map[string]int{}}
	taken := places{}
	for _, op := range chosen {
		a, err := p.plan(op, names[op])
		if err == nil && taken.by(a) != nil {
			err = errors.New("another operation has the same method and path")
			taken.by(a).worsen(a)
		}
		if err != nil {
			i.skip(op.String(), err.Error())
			i.guard(s, p, op, names[op], taken)
			continue
		}
		s.add(a, taken)
	}
	for _, op := range unread {
		i.guard(s, p, op, names[op], taken)
	}
	for _, what := range slices.Sorted(maps.Keys(p.lost)) {
		i.note("%s were left out: %d", what, p.lost[what])
	}
	return i.settle(s, p)
}

// guard adds what stands for an operation that is left out.
func (i *importer) guard(s *service, p *planner, op *operation, name string, taken places) {
	for _, guard := range p.guards(op, name) {
		s.add(guard, taken)
		if op.unsure {
			i.inPart(guard)
		}
	}
}

// inPart says that an operation has other paths than its guard.
func (i *importer) inPart(guard *action) {
	i.note("%s may do more than any other read or write, and is told from them at %s alone: a parameter may be other segments", guard.from, guard.path)
}

func (o *Options) refuse(err error, hint string) error {
	e := &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%s cannot be imported: %s", o.From, err), Hint: hint}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Reason, e.Msg, e.Hint = runtime.ReasonNotFound, "there is no file "+o.From, "check the path"
	case hint == "" && strings.HasSuffix(o.From, ".gz"):
		e.Hint = "unpack it first: gunzip -k " + o.From
	case errors.Is(err, services.ErrTwice):
		e.Hint = "write the two as one"
	case hint == "":
		e.Hint = "give an OpenAPI 3 or Swagger 2.0 description, as JSON or YAML"
	}
	return e
}

// importer is one import under way.
type importer struct {
	o Options
	d *document
	r *Result
}

func (i *importer) skip(what, why string) {
	i.r.Skipped = append(i.r.Skipped, Skip{what, why})
}

func (i *importer) note(format string, args ...any) {
	i.r.Notes = append(i.r.Notes, fmt.Sprintf(format, args...))
}

// choose lists the operations that are asked for, and those of them that cannot be read,
// with the names that they have in the whole document, and counts the others that can be.
func (i *importer) choose() (chosen, unread []*operation, others int, names map[*operation]string) {
	unreadable := 0
	all, unread := i.d.operations(func(what, why string) {
		unreadable++
		i.skip(what, why)
	})
	names = nameOperations(all, unread)
	var granting []string
	left := func(op *operation) bool {
		tagged := len(i.o.Tags) == 0 || slices.ContainsFunc(op.tags, func(t string) bool {
			return slices.ContainsFunc(i.o.Tags, func(want string) bool { return strings.EqualFold(t, want) })
		})
		left := !tagged || !strings.HasPrefix(op.path, i.o.PathPrefix)
		if _, grants := risk(op); left && grants && op.item.v != nil { // else nobody knows which the path has
			granting = append(granting, names[op])
		}
		return left
	}
	readable := len(all)
	chosen, unread = slices.DeleteFunc(all, left), slices.DeleteFunc(unread, left)
	i.r.Total = len(chosen) + unreadable
	if len(granting) > 0 {
		i.note("%d that hand out lasting access were not asked for, and are any other read or write: %s", len(granting), few(granting, 5))
	}
	return chosen, unread, readable - len(chosen), names
}

// has says what could be asked for: tags, and paths, which are those of the document,
// without the one of its server.
func (i *importer) has() string {
	tags, paths := map[string]bool{}, map[string]bool{}
	all, _ := i.d.operations(func(string, string) {})
	for _, op := range all {
		first, _, _ := strings.Cut(strings.TrimPrefix(op.path, "/"), "/")
		paths[shown("/"+first)] = true
		for _, t := range op.tags {
			tags[shown(t)] = true
		}
	}
	if len(i.o.Tags) == 0 && i.o.PathPrefix == "" {
		return "give the description whose paths has the operations, or write a service file: docs/services.md"
	}
	fix := "leave --tag and --path-prefix out, or correct them"
	if len(i.o.Tags) > 0 && len(tags) > 0 {
		fix += "; its tags are " + few(slices.Sorted(maps.Keys(tags)), 5)
	}
	if i.o.PathPrefix != "" && len(paths) > 0 {
		fix += "; its paths begin with " + few(slices.Sorted(maps.Keys(paths)), 5)
	}
	return fix
}

func (i *importer) service(chosen []*operation) (*service, error) {
	server, err := i.d.server(i.o.BaseURL)
	if err != nil {
		return nil, i.o.refuse(err, "say where the API lives: --base-url https://api.example.com")
	}
	auth, err := i.d.auth(i.o.Auth, chosen)
	if err != nil {
		return nil, i.o.refuse(err, "kimbap service import --help")
	}
	i.r.Notes = append(i.r.Notes, auth.notes...)
	info := i.d.root.get("info")
	s := &service{
		name: i.o.Name, version: semver(info.text("version")), description: sentence(info.text("title")),
		from: i.o.From, server: server, auth: auth,
	}
	if s.name == "" {
		s.name = serviceName(variable().ReplaceAllString(server.host, "x"), info.text("title"))
	}
	i.r.Name = s.name
	if v := info.text("version"); v != "" {
		s.from += ", version " + sentence(v)
	}
	for _, v := range server.vars {
		i.note("the address has a variable: kimbap service install ./%s.yaml --var %s=…", s.name, v.name)
	}
	return s, nil
}

// settle writes the file and has it judged as any service file is. What does not
// pass is left out with the reason, until the rest does.
func (i *importer) settle(s *service, p *planner) (*Result, error) {
	for withWords := true; ; {
		i.r.YAML = s.text(withWords)
		if withWords && len(i.r.YAML) > mostText {
			withWords = false
			i.note("the arguments have no descriptions: with them the file would be longer than a service file may be")
			continue
		}
		_, err := services.Parse(s.name+".yaml", i.r.YAML)
		if err == nil {
			break
		}
		var problems services.Problems
		if !errors.As(err, &problems) || !i.drop(s, p, problems) {
			return nil, i.o.refuse(err, "give it another name (--name), or choose operations with --tag and --path-prefix")
		}
	}
	if len(s.actions) == 0 {
		return nil, i.o.refuse(errors.New("no operation could be imported\n"+i.r.Report()), mend)
	}
	for _, a := range s.actions {
		if !a.guard {
			i.r.Imported++
		}
		if a.grants {
			i.r.Grants = append(i.r.Grants, a.name)
		}
	}
	return i.r, nil
}

// mend is what helps where each operation has a reason to be left out.
const mend = "correct the description where it says why, or write a service file: docs/services.md"

// mostText is the longest file that is made, in bytes, below the longest that
// is read.
const mostText = services.MaxFile - 1024

// drop leaves out the actions that have problems; those that are [beyond] the
// catch-alls are guarded. It reports whether there were any.
func (i *importer) drop(s *service, p *planner, problems services.Problems) bool {
	bad := i.named(problems)
	var guards []*action
	before, taken := len(s.actions), places{}
	s.actions = slices.DeleteFunc(s.actions, func(a *action) bool {
		why, isBad := bad[a.name]
		switch {
		case !isBad:
			taken.take(a)
		case !a.guard:
			if len(a.match) > 0 && overlapping().MatchString(why) {
				why = besideAnother
			}
			i.skip(a.from.String(), why)
			if beyond(a.method, a.risk, a.grants) {
				guards = append(guards, p.bare(a.from, p.prefix, a.name, a.risk, a.grants))
				if strings.HasSuffix(a.path, "...}") || strings.HasSuffix(a.path, "**") {
					i.inPart(guards[len(guards)-1])
				}
			}
		default:
			i.note("%s may do more than any other read or write, and cannot be told from them: %s", a.from, why)
		}
		return isBad
	})
	found := len(s.actions) < before
	for _, a := range guards {
		s.add(a, taken)
	}
	return found
}

// besideAnother is why one of two operations is left out that only different keys of the query
// tell apart, as S3's ?acl and ?tagging: both may stand in one, so a file with both does not load.
const besideAnother = "one request may have its query and that of another operation, so match: cannot tell them apart"

// named finds the actions that have problems, with what is said of each first.
func (i *importer) named(problems services.Problems) map[string]string {
	lines := strings.Split(string(i.r.YAML), "\n")
	bad := map[string]string{}
	for _, p := range problems {
		name := i.blamed(lines, p)
		if _, have := bad[name]; name != "" && !have {
			bad[name] = strings.TrimLeft(strings.TrimPrefix(p.Msg, name), ".: ")
		}
	}
	return bad
}

// blamed is the action that a problem is the mistake of, "" for one of none: behind the last
// line those past the first are counted. A catch-all is wrong for nothing but what it overlaps.
func (i *importer) blamed(lines []string, p services.Problem) string {
	for at := p.Line - 1; at >= 0 && at < len(lines); at-- {
		m := actionLine().FindStringSubmatch(lines[at])
		if m == nil {
			continue
		}
		if m[2] == "" {
			return m[1]
		}
		for _, of := range overlapping().FindAllStringSubmatch(p.Msg, -1) {
			if of[1] != m[1] {
				return of[1]
			}
		}
		return ""
	}
	return ""
}

// actionLine begins an action; a catch-all stands on it whole.
var actionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^  ([a-z][a-z0-9-]*):( \{.*)?$`) })

// overlapping finds the actions in the text of a [classifier.OverlapError].
var overlapping = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\([a-z0-9-]+\.([a-z0-9-]+), `) })
