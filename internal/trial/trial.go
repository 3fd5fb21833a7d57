package trial

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Case is one call of an action: what it must send, and what is made of the
// answer. Only the action is needed.
type Case struct {
	Action  string          `json:"action"`
	Args    map[string]any  `json:"args,omitempty"`
	Request string          `json:"request,omitempty"` // "GET /path?query" as it must be sent
	Body    json.RawMessage `json:"body,omitempty"`    // what must be sent: JSON, or text
	Status  int             `json:"status,omitempty"`  // of the recorded answer
	Answer  json.RawMessage `json:"answer,omitempty"`  // the recorded answer
	Result  json.RawMessage `json:"result,omitempty"`  // what the action's filter makes of it
}

// CaseFile is what stands beside a service file, as FILE.cases.yaml.
type CaseFile struct {
	Cases []Case `json:"cases"`
}

// Options say how the cases of a service file are tried.
type Options struct {
	File     string
	Upstream string      // the address of an upstream that answers; "": recorded answers
	Record   bool        // write what the upstream answered beside the file
	Writes   bool        // send to the upstream also what is above low risk
	TLS      *tls.Config // whom to believe that they are the upstream; nil: whom the system believes
}

// Tried is what became of one case.
type Tried struct {
	Action  string `json:"action"`
	Request string `json:"request,omitempty"`
	Outcome string `json:"outcome"` // ok | failed | untried
	Why     string `json:"why,omitempty"`
}

// CasesOf is the name of the file of cases.
func CasesOf(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(file, ".yaml"), ".yml") + ".cases.yaml"
}

// Run calls the actions of a service file without kimbap's home or any
// key. Each call is built as `call` does, must be recognised as the same action
// with the same arguments, and is compared with its case; an action without a
// case is called with arguments of its own making. Answers are those of the
// upstream, else the recorded ones; the action's filter must take them.
func Run(ctx context.Context, o Options) ([]Tried, error) {
	data, err := system.ReadUpTo(o.File, services.MaxFile+1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the service file cannot be read: " + err.Error(), Hint: "kimbap service test FILE"}
	}
	if err != nil {
		return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no file " + o.File, Hint: "kimbap service test --help"}
	}
	s, err := services.Parse(o.File, data)
	if err == nil && len(s.Unset) > 0 {
		err = fmt.Errorf("the service has variables (%s): write their values into a copy of the file first", strings.Join(s.Unset, ", "))
	}
	if err != nil {
		return nil, runtime.Invalid(err, "kimbap service validate "+runtime.Quote(o.File))
	}
	set, err := services.NewSet([]*services.Service{s})
	if err != nil {
		return nil, err
	}
	cases, err := readCases(CasesOf(o.File))
	if err != nil {
		return nil, err
	}
	r := &trial{Options: o, s: s, set: set}
	if o.Upstream != "" {
		if r.upstream, err = url.Parse(o.Upstream); err != nil || r.upstream.Host == "" {
			return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "--upstream is no address", Hint: "write it like http://127.0.0.1:8080"}
		}
	}
	r.all(ctx, cases)
	if o.Record && len(r.recorded) > 0 {
		err = r.write()
	}
	return r.out, err
}

// mostCases bounds a file of cases, in bytes: recorded answers are in it.
const mostCases = 64 << 20

func readCases(file string) ([]Case, error) {
	data, err := system.ReadUpTo(file, mostCases+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(data) > mostCases {
		err = fmt.Errorf("the file is over %d MiB", mostCases>>20)
	}
	var tree any
	if err == nil {
		tree, err = services.YAMLValue(data)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(tree)
	}
	var out CaseFile
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		dec.UseNumber()
		err = dec.Decode(&out)
	}
	if err != nil {
		said := strings.TrimPrefix(err.Error(), "json: ")
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			said = cmp.Or(wrong.Field, "the file") + " cannot be of type " + wrong.Value
		}
		return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: file + ": " + said, Hint: "its fields are cases: [{action, args, request, body, status, answer, result}]"}
	}
	return out.Cases, nil
}

// trial is one run over a service file.
type trial struct {
	Options
	s        *services.Service
	set      *services.Set
	upstream *url.URL
	out      []Tried
	recorded []Case
	kept     []Case // of the file, for which nothing was recorded
}

func (r *trial) all(ctx context.Context, cases []Case) {
	had := map[string]bool{}
	for _, c := range cases {
		had[c.Action] = true
		before := len(r.recorded)
		if r.one(ctx, c); len(r.recorded) == before {
			r.kept = append(r.kept, c)
		}
	}
	for _, a := range r.s.Actions {
		if had[a.Name] || a.HTTP != nil && strings.HasSuffix(a.HTTP.Path, "**") {
			continue
		}
		if a.HTTP == nil {
			r.out = append(r.out, Tried{Action: a.Name, Outcome: "untried", Why: "it starts a program, and a test starts none: kimbap call tries it"})
			continue
		}
		args, missing := sampleArgs(a)
		if missing != "" {
			r.out = append(r.out, Tried{Action: a.Name, Outcome: "untried", Why: "no value is known for " + missing + ": write a case"})
			continue
		}
		if name, document := documentOf(r.s, a); name != "" {
			args[name] = document
		}
		r.one(ctx, Case{Action: a.Name, Args: args})
	}
}

func (r *trial) one(ctx context.Context, c Case) {
	tried := Tried{Action: c.Action, Outcome: "ok"}
	a, ok := r.set.Action(r.s.Name + "." + c.Action)
	if !ok || a.HTTP == nil {
		r.out = append(r.out, Tried{Action: c.Action, Outcome: "failed", Why: "the file has no such action over HTTP"})
		return
	}
	built, err := r.build(a, c)
	if built != nil {
		tried.Request = built.Method + " " + built.Target
	}
	if err == nil {
		err = r.answered(ctx, a, &c, built, &tried)
	}
	if err != nil {
		tried.Outcome, tried.Why = "failed", runtime.Said(err)
		if e := (*runtime.Error)(nil); errors.As(err, &e) {
			tried.Why = e.Msg
		}
	}
	r.out = append(r.out, tried)
}

// build makes the request of a case and reads it back.
func (r *trial) build(a *runtime.Action, c Case) (*runtime.Built, error) {
	found, err := r.set.Resolve(&runtime.Request{Action: a.Ref, Args: c.Args})
	if err != nil {
		return nil, err
	}
	built := found.Built
	if err := readBack(r.set, a, built, found.Args); err != nil {
		return built, err
	}
	if got := built.Method + " " + built.Target; c.Request != "" && got != c.Request {
		return built, fmt.Errorf("sends %s, and the case says %s", got, c.Request)
	}
	if c.Body != nil && !sameBody(c.Body, built.Body) {
		return built, fmt.Errorf("sends the body %s, and the case says %s", built.Body, c.Body)
	}
	return built, nil
}

// readBack holds a built request, which the set has found to be this action, to the
// arguments that it was made of.
func readBack(set *services.Set, a *runtime.Action, built *runtime.Built, args runtime.Args) error {
	in := classifier.Input{Scheme: built.Scheme, Authority: built.Authority, Method: built.Method, Target: built.Target, Header: built.Header, Checked: true, Unfilled: services.Unfilled(a.HTTP, args)}
	read := a.HTTP.BodyType == "json" || a.HTTP.BodyType == "form"
	if built.Body != nil && read {
		body, err := classifier.ParseBody(built.Header.Get("Content-Type"), "", built.Body)
		if err != nil {
			return err
		}
		in.Body = body
	}
	m, err := set.Table().Match(in)
	if err == nil && m.NeedBody && built.Body == nil && !wantsDocument(set, a) { // that there is none tells too, as where a call is sent
		if in.Body, err = classifier.ParseBody(built.Header.Get("Content-Type"), "", nil); err == nil {
			m, err = set.Table().Match(in)
		}
	}
	if err != nil {
		return err
	}
	if m.NeedBody && built.Body != nil { // it is in parts, or as it is: nothing is read back
		return nil
	}
	if m.Action == "" { // only its body would tell, and there is none
		return errors.New("its request is recognised as none of the service's actions")
	}
	for _, p := range a.Params {
		given, was := args[p.Name]
		if !was || p.Name == a.Rest || p.In == runtime.InBody && !read {
			continue
		}
		if back, there := m.Args[p.Name]; !there || !reflect.DeepEqual(back, given) {
			return fmt.Errorf("the argument %s is not read back from its request as it was given", p.Name)
		}
	}
	return nil
}
