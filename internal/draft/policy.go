package draft

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/recognised"
	"github.com/kimbap-run/kimbap/services"
)

// Policy is a policy that is looked at and not in force, with the services that
// its rules are about.
type Policy struct {
	Path   string
	tenant runtime.Tenant // of cases that name none
	set    *services.Set
	policy *policy.Policy
	clock  func() time.Time
	all    bool // tunnels to foreign hosts are looked into
}

// Options are what a draft is held against.
type Options struct {
	Services *services.Set    // required
	Clock    func() time.Time // required: the time of cases that name none
	Tenant   runtime.Tenant   // of cases that name none
	// DenyUnmatched narrows the policy as proxy.unmatched: deny does.
	DenyUnmatched bool
	// InterceptAll says that tunnels to hosts without a service are looked into, as proxy.intercept:
	// all has it.
	InterceptAll bool
}

// Load reads a policy, a file or a folder.
func Load(path string, o Options) (*Policy, error) {
	p, err := policy.Load(path, o.Services)
	if err != nil {
		return nil, runtime.Invalid(err, "correct the file")
	}
	if o.DenyUnmatched {
		p = p.DenyUnmatched()
	}
	return &Policy{Path: path, tenant: o.Tenant, set: o.Services, policy: p, clock: o.Clock, all: o.InterceptAll}, nil
}

// Digest is the digest that the policy would have in force.
func (d *Policy) Digest() string { return d.policy.Digest() }

// Rules counts the rules.
func (d *Policy) Rules() int { return d.policy.Rules() }

// TestFiles are the files with tests at the paths: files themselves, and of folders
// all *_test.yaml below. Without a path they are those of the policy: below its
// folder, or beside its file.
func (d *Policy) TestFiles(paths ...string) ([]string, error) {
	if len(paths) == 0 && !isFolder(d.Path) {
		folder := filepath.Dir(d.Path)
		found := append(system.Files(folder, "", "_test.yaml"), system.Files(folder, "", "_test.yml")...)
		if len(found) == 0 {
			return nil, noTests(folder)
		}
		slices.Sort(found)
		return found, nil
	}
	if len(paths) == 0 {
		paths = []string{d.Path}
	}
	var files []string
	for _, path := range paths {
		if !isFolder(path) {
			files = append(files, path) // which is missed where it is read
			continue
		}
		found, err := policy.Tests(path)
		if err == nil && len(found) == 0 {
			err = noTests(path)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func noTests(folder string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound,
		Msg: fmt.Sprintf("there are no tests in %s", folder), Hint: "write " + filepath.Join(folder, "policy_test.yaml") + "; see docs/policy.md",
	}
}

// Judged is what a draft says of a case.
type Judged struct {
	Verdict runtime.Verdict
	Steps   []policy.Step
	ReadAs  *ReadAs // the reading of its path that decided, if not the first
	Action  runtime.Ref
	Tunnel  bool   // what was judged is the opening of a tunnel, of which nothing else is seen
	Refused string // why no rule was looked at; "" when they were
}

// Judge asks the draft about a case. The error is of the case itself.
func (d *Policy) Judge(c *policy.Case) (*Judged, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	q, refused, err := d.question(c)
	if err != nil || refused != "" {
		return &Judged{Verdict: runtime.Verdict{Effect: runtime.EffectDeny, Rule: "unmatched"}, Refused: refused}, err
	}
	others, err := d.others(q)
	verdict, as := Decide(d.policy, q, others)
	return &Judged{Verdict: verdict, Steps: d.policy.Explain(q), ReadAs: as, Action: q.Action.Ref, Tunnel: q.Request.Target.Scheme == Tunnel}, err
}

// others are the readings of a case or a record. Of one that names its action they are those of
// the request that kimbap would build, if what it says is enough to build it.
func (d *Policy) others(q runtime.Question) ([]runtime.Reading, error) {
	if q.Request.Raw != nil {
		return d.set.Readings(q.Request, q.Action, q.Args, q.Request.Others)
	}
	found, err := d.set.Resolve(q.Request)
	if err != nil {
		return nil, nil //nolint:nilerr // it need not say every argument
	}
	return found.Others, nil
}

// question makes the question that a case stands for.
func (d *Policy) question(c *policy.Case) (q runtime.Question, refused string, err error) {
	req := &runtime.Request{Surface: c.Surface, Action: runtime.Ref(c.Action), Args: c.Args}
	if c.Request != "" {
		refused, err = d.recognise(c, req)
	} else {
		d.aim(c, req)
	}
	if err != nil || refused != "" {
		return q, refused, err
	}
	action, args, err := d.resolve(c, req)
	if err != nil {
		return q, "", err
	}
	q = runtime.Question{
		Principal: &runtime.Principal{ID: "test", Kind: c.Kind, Tenant: c.Tenant, Agent: c.Agent, Roles: c.Roles, Groups: c.Groups},
		Action:    action, Args: args, Request: req, Now: c.At,
	}
	if q.Principal.Tenant == "" {
		q.Principal.Tenant = d.tenant
	}
	if q.Now.IsZero() {
		q.Now = d.clock()
	}
	return q, "", nil
}

// aim fills in the request of a case that names its action.
func (d *Policy) aim(c *policy.Case, req *runtime.Request) {
	req.Target = runtime.Target{Authority: c.Host, Method: c.Method}
	if c.Host != "" {
		req.Target.Scheme = "https"
		if canonical, err := classifier.CanonicalAuthority(c.Host, "443"); err == nil {
			req.Target.Authority = canonical
		}
	}
	if c.Headers != nil || c.Body != nil {
		req.Raw = rawOf(c)
		req.Document, req.Parsed = c.Body, c.Body != nil
	}
}

func rawOf(c *policy.Case) *runtime.Raw {
	raw := &runtime.Raw{Header: http.Header{}}
	for name, value := range c.Headers {
		raw.Header.Add(name, value)
	}
	return raw
}

// resolve finds the action of a case. One that is not installed needs a risk.
func (d *Policy) resolve(c *policy.Case, req *runtime.Request) (*runtime.Action, runtime.Args, error) {
	if action, ok := d.set.Action(string(req.Action)); ok {
		return action, req.Args, undeclared(c, action)
	}
	if req.Action.Foreign() {
		if req.Target.Authority == "" {
			return nil, nil, fmt.Errorf("%s%s is what goes to a host of no service: say which, by method and URL", where(c), req.Action)
		}
		if named := req.Action; c.Request == "" {
			Enclose(req, d.all)
			req.Action = named // a connection may turn out to be a raw tunnel on any port
		}
		found, err := d.set.Resolve(req)
		if err != nil {
			err = fmt.Errorf("%s%s", where(c), runtime.AsError(err).Msg) // the code is for programs
		}
		return found.Action, found.Args, err
	}
	if c.Risk == "" {
		return nil, nil, fmt.Errorf("%sthe action %s is not installed: install its service, or say its risk%s", where(c), req.Action, d.meant(string(req.Action)))
	}
	service, name, _ := strings.Cut(string(req.Action), ".")
	return &runtime.Action{Ref: req.Action, Service: service, Name: name, Risk: c.Risk, Auth: &runtime.Auth{}}, req.Args, nil
}

// meant names the actions that a misspelled one may stand for.
func (d *Policy) meant(ref string) string {
	near := d.set.Suggest(ref)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, ", ") + "?"
}

// undeclared is the argument of a case that the action does not have: a verdict
// without it would show nothing.
func undeclared(c *policy.Case, action *runtime.Action) error {
	if c.Action == "" || action.Rest != "" {
		return nil
	}
	names := make([]string, 0, len(action.Params))
	for i := range action.Params {
		names = append(names, action.Params[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		if slices.Contains(names, name) {
			continue
		}
		near := runtime.Nearest(name, names)
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		return fmt.Errorf("%s%s has no argument %q%s", where(c), action.Ref, name, near)
	}
	return nil
}

// where says where the case of a test stands; one of the command line is in no file.
func where(c *policy.Case) string {
	if c.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", c.File, c.Line)
}

// recognise fills in the request of a case that is a method and a URL.
func (d *Policy) recognise(c *policy.Case, req *runtime.Request) (refused string, err error) {
	method, rawURL, _ := strings.Cut(c.Request, " ")
	u, err := url.Parse(strings.TrimSpace(rawURL))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s%q is not a method and a URL", where(c), c.Request)
	}
	authority, err := classifier.CanonicalAuthority(u.Host, runtime.DefaultPort(u.Scheme))
	if err != nil {
		return err.Error(), nil
	}
	target := Target(u, rawURL)
	req.Target = runtime.Target{Scheme: u.Scheme, Authority: authority, Method: method, Path: target}
	req.Raw = rawOf(c)
	req.Action = runtime.ForeignAction(authority, req.Raw)
	if c.Body == nil && MayHaveBody(method) {
		req.Raw.Body = http.NoBody // there is one, and nobody has read it
	}
	table := d.set.Table()
	switch table.Host(u.Scheme, authority) {
	case classifier.HostForeign:
		if len(c.Args) > 0 {
			return "", fmt.Errorf("%sargs are those of an action, and no service owns the host of %q: write what the request holds into its URL, headers and body", where(c), c.Request)
		}
		req.Document, req.Parsed = c.Body, c.Body != nil
		Enclose(req, d.all)
		return "", nil
	case classifier.HostInsecure:
		return "a service owns this host over https only", nil
	}
	body, err := bodyOf(c, method)
	if err != nil {
		return err.Error(), nil
	}
	match, err := table.Match(classifier.Input{
		Scheme: u.Scheme, Authority: authority, Method: method, Target: target, Header: req.Raw.Header, Body: body,
	})
	switch {
	case err != nil:
		return err.Error(), nil
	case match.NeedBody:
		return "the action depends on the body of the request: give one", nil
	case match.Action == "":
		return recognised.SayNone(authority, target), nil
	}
	recognised.As(req, match)
	req.Document, req.Parsed = body.Value(), body != nil
	for name, value := range c.Args {
		if req.Args == nil {
			req.Args = runtime.Args{}
		}
		req.Args[name] = value
	}
	return "", nil
}

// Target is the target of a request to that address: path and query exactly as they were
// written, where they stand behind the host alone. No client sends what follows a #.
func Target(u *url.URL, written string) string {
	written, _, _ = strings.Cut(written, "#")
	if _, after, ok := strings.Cut(written, "://"+u.Host); ok && strings.HasPrefix(after, "/") {
		return after
	}
	return u.RequestURI() // nothing stands there, or a user before the host
}

// bodyOf is the body of a case, nil for a request that has one which the case
// does not tell.
func bodyOf(c *policy.Case, method string) (*classifier.Body, error) {
	if c.Body == nil && MayHaveBody(method) {
		return nil, nil
	}
	var text []byte
	if c.Body != nil {
		var err error
		if text, err = json.Marshal(c.Body); err != nil {
			return nil, err
		}
	}
	return classifier.ParseBody("application/json", "", text)
}

// MayHaveBody reports whether requests of the method usually have a body (RFC
// 9110 section 9.3).
func MayHaveBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// Tested is how one case went.
type Tested struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Said string `json:"said"`
}

// Test runs the tests of a file.
func (d *Policy) Test(file string) ([]Tested, error) {
	data, err := system.ReadUpTo(file, policy.MaxFile+1)
	if err != nil {
		return nil, err
	}
	cases, err := policy.ParseCases(file, data)
	if err != nil {
		return nil, runtime.Invalid(err, "correct the file")
	}
	var out []Tested
	for i := range cases {
		c := &cases[i]
		t := Tested{File: c.File, Line: c.Line, Name: c.Name}
		judged, err := d.Judge(c)
		switch {
		case err != nil:
			t.Said = err.Error()
		case judged.Refused != "":
			t.OK = c.Expect == runtime.EffectDeny && c.Rule == ""
			t.Said = "refused before policy: " + judged.Refused
		default:
			t.OK, t.Said = c.Met(judged.Verdict)
		}
		out = append(out, t)
	}
	return out, nil
}

// Asked is what a person asks a draft about, without sending it.
type Asked = policy.Case
