package call

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
	"github.com/kimbap-run/kimbap/services"
)

// mostRedirects bounds a chain of redirects.
const mostRedirects = 5

// Actions does actions by their names, over the services in force, which are required as the
// clock is.
type Actions struct {
	Services *services.Live
	Clock    func() time.Time

	// JQ is [jq.Filter] where an expression of a service file can do no harm to what else is
	// served here; nil: in this process.
	JQ func(expression string, data []byte) ([]byte, error)
}

// Do does one action and returns its whole answer, which is bounded like the one that
// is given. A redirect to the same origin is followed where the method allows it; each
// hop is a request of its own, recognised, judged and recorded like any other. One to
// another origin is an error: the credential does not go there.
func (a Actions) Do(ctx context.Context, p *runtime.Pipeline, req *runtime.Request, action *runtime.Action, like Answer) (*Answer, error) {
	answer, _, err := a.send(ctx, p, step{req: req, action: action}, like)
	return answer, err
}

// step is one request of a call that may need several, and where it goes.
type step struct {
	req    *runtime.Request
	action *runtime.Action // that the caller named
	args   runtime.Args    // resolved, of a built request
	url    *url.URL        // where the request goes; nil for a command, and until somebody asks
	header http.Header     // of the built request
	behind bool            // a request that does more than read led here, and was done
}

// onBehalf is a request on the same behalf as another, and within the same bounds.
func onBehalf(r *runtime.Request) *runtime.Request {
	return &runtime.Request{
		Surface: r.Surface, Caller: r.Caller, Execution: r.Execution, Step: r.Step, Within: r.Within,
		Hold: r.Hold, OnPending: r.OnPending, Results: r.Results, Unattended: r.Unattended,
	}
}

// first is the step of the request that the caller asked for. What is wrong with
// its arguments is left to the pipeline, which records it.
func (a Actions) first(req *runtime.Request, action *runtime.Action) (step, error) {
	if req.Followed { // a person has allowed what was redirected to
		s := step{req: req, action: action, header: req.Raw.Header}
		var err error
		s.url, err = url.Parse(req.Target.Scheme + "://" + req.Target.Authority + req.Target.Path)
		return s, err
	}
	found, err := a.resolve(req)
	if err != nil {
		return step{req: req, action: action}, nil
	}
	return leading(req, action, found)
}

// resolve is what the request of a step is resolved to in the pipeline too.
func (a Actions) resolve(req *runtime.Request) (runtime.Resolved, error) {
	return a.Services.Resolve(&runtime.Request{Surface: req.Surface, Action: req.Action, Args: req.Args, Settled: req.Settled})
}

// leading is the step of a resolved request, with the URL that it leads to.
func leading(req *runtime.Request, action *runtime.Action, found runtime.Resolved) (s step, err error) {
	s = step{req: req, action: action}
	built := found.Built
	if built == nil {
		return s, nil
	}
	s.args, s.header = found.Args, built.Header
	if s.url, err = url.Parse(built.Scheme + "://" + built.Authority + built.Target); err != nil {
		return s, fmt.Errorf("the URL of %s: %w", action.Ref, err)
	}
	return s, nil
}

// send sends a step and follows redirects. It returns the step that was answered, with an
// answer that is bounded like the one that is given.
func (a Actions) send(ctx context.Context, p *runtime.Pipeline, s step, like Answer) (*Answer, step, error) {
	for hop := 0; ; hop++ {
		answer := &Answer{Limit: like.Limit, Room: like.Room, Free: like.Free}
		if err := p.Do(ctx, s.req, answer); err != nil {
			return nil, s, s.undone(err)
		}
		answer.Of(s.req)
		answer.behind = s.behind
		if err := answer.Decode(); err != nil {
			return nil, s, s.undone(err)
		}
		location := answer.Header.Get("Location")
		if answer.Status < 301 || answer.Status > 308 || location == "" || answer.Status == http.StatusNotModified || s.theirs() {
			return answer, s, nil
		}
		if hop == mostRedirects {
			return nil, s, s.undone(unfollowed(s, "redirects more than %d times", mostRedirects))
		}
		next, err := a.redirected(s, location, answer.Status)
		if err != nil {
			s.behind = s.behind || !s.reads() && answer.Status == http.StatusSeeOther // which says that it was done
			return nil, s, s.undone(err)
		}
		s = next
	}
}

// theirs reports whether a program sent its request itself, which a person has allowed since. What
// that is redirected to is the program's to follow: its fields are not for another request.
func (s step) theirs() bool { return s.req.Raw != nil && !s.req.Followed }

// redirected is the step that a redirect leads to.
func (a Actions) redirected(s step, location string, status int) (step, error) {
	if s.url == nil { // most calls never ask where they went
		var err error
		if s, err = a.first(s.req, s.action); err != nil {
			return step{}, err
		}
		if s.url == nil {
			return step{}, unsettled(s)
		}
	}
	if !s.reads() && status != http.StatusSeeOther {
		return step{}, unfollowed(s, "answered a %s with a redirect (%d), which would send it a second time", s.action.HTTP.Method, status)
	}
	next, err := a.follow(s, location, "redirects to")
	if err != nil {
		return step{}, err
	}
	next.behind = s.behind || !s.reads()
	if s.req.Execution != "" && (next.behind || !s.action.Idempotent) {
		next.behind, next.req.Unattended = true, true // a script that goes on after a yes makes its call again
	}
	return next, nil
}

// reads reports whether its request may be sent again: one that was followed is a GET or HEAD.
func (s step) reads() bool {
	return s.req.Followed || s.action.HTTP.Method == http.MethodGet || s.action.HTTP.Method == http.MethodHead
}

// looks reports whether its request is a HEAD, of which nobody wants a body.
func (s step) looks() bool {
	return s.req.Followed && s.req.Target.Method == http.MethodHead || !s.req.Followed && s.action.HTTP.Method == http.MethodHead
}

// undone is the error of a request that was not done. Of one that comes behind another it says
// that the other was: told only what became of the second, its caller would send both again.
func (s step) undone(err error) error {
	e := *runtime.AsError(err)
	if !s.behind || e.Code == runtime.CodeApprovalPending {
		return err
	}
	if e.Reason == runtime.ReasonUnattended {
		e.Msg = fmt.Sprintf("a person would have to approve it (rule %s)", e.Rule)
	}
	return unread(s.action, &e)
}

// unread makes the error of what an action redirects to one that says that the action was done.
func unread(action *runtime.Action, e *runtime.Error) *runtime.Error {
	e.Msg = fmt.Sprintf("%s was done, and what it redirects to was not read: %s", action.Ref, e.Msg)
	e.Hint = "do not send it again for that"
	return e
}

func unfollowed(s step, format string, args ...any) error {
	return &runtime.Error{
		Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Action: s.action.Ref, RequestID: s.req.ID,
		Msg: s.action.Service + " " + fmt.Sprintf(format, args...), Hint: "send the request itself: kimbap run -- curl -L …",
	}
}

// follow makes the step that a URL of an answer leads to: a GET, or from a HEAD another
// (RFC 9110 section 15.4), on the same origin, and whatever action that is.
func (a Actions) follow(from step, ref, how string) (step, error) {
	if from.url == nil {
		return step{}, unsettled(from)
	}
	to, err := from.url.Parse(ref)
	if err != nil {
		return step{}, unfollowed(from, "%s what is not a URL", how)
	}
	to.Fragment, to.RawFragment = "", ""
	authority, err := classifier.CanonicalAuthority(to.Host, runtime.DefaultPort(to.Scheme))
	if err != nil || to.User != nil || to.Scheme != from.url.Scheme || authority != from.url.Host {
		return step{}, unfollowed(from, "%s another host (%q), where its credential does not go", how, to.Host)
	}
	to.Host = authority
	target := runtime.Target{Scheme: to.Scheme, Authority: authority, Method: http.MethodGet, Path: to.RequestURI()}
	if from.looks() {
		target.Method = http.MethodHead
	}
	header := from.header.Clone()
	header.Del("Content-Type")
	match, err := a.Services.Current().Table().Match(classifier.Input{
		Scheme: target.Scheme, Authority: authority, Method: target.Method, Target: target.Path, Header: header,
		Body:     &classifier.Body{}, // none, which a strict service wants to know
		Unfilled: services.OwnFields(header),
	})
	if err != nil || match.Action == "" {
		return step{}, unfollowed(from, "%s %s, which none of its actions covers", how, printablePath(to.Path))
	}
	req := onBehalf(from.req)
	req.Target, req.Followed, req.Raw = target, true, &runtime.Raw{Header: header}
	recognised.As(req, match)
	return step{req: req, action: from.action, args: from.args, url: to, header: from.header}, nil
}

// printablePath makes a path that came from outside fit a message.
func printablePath(path string) string {
	return fmt.Sprintf("%q", path[:min(len(path), 100)])
}

// again is the step of the same action with one argument changed. A request that cannot be
// made is an error here: nobody sends it, so the pipeline does not say it.
func (a Actions) again(from step, changed runtime.Args) (step, error) {
	if from.url == nil {
		return step{}, unsettled(from)
	}
	args := runtime.Args{}
	maps.Copy(args, from.args)
	maps.Copy(args, changed)
	req := onBehalf(from.req)
	req.Action, req.Args, req.Settled = from.action.Ref, args, from.args != nil
	found, err := a.resolve(req)
	if err != nil {
		return step{}, err
	}
	next, err := leading(req, from.action, found)
	if err == nil && next.url == nil {
		err = unsettled(from)
	}
	return next, err
}

// unsettled is the error of a step whose service changed after it was begun, so that it is
// not known where it went and with which arguments.
func unsettled(s step) error {
	return unfollowed(s, "was installed or changed while it was asked")
}

// nextLink finds the target of rel="next" in Link fields (RFC 8288 section 3); "" where
// nothing is behind it.
func nextLink(header http.Header) string {
	for _, value := range header.Values("Link") {
		for value != "" {
			start, end := strings.IndexByte(value, '<'), strings.IndexByte(value, '>')
			if start < 0 || end < start {
				break
			}
			target, params := value[start+1:end], value[end+1:]
			value = ""
			if more := strings.IndexByte(params, '<'); more >= 0 {
				params, value = params[:more], params[more:]
			}
			if leadsOn(params) {
				return target
			}
		}
	}
	return ""
}

// leadsOn reports whether the parameters are those of a link to a next page that has
// something: Sentry names a page behind the last one too, with results="false".
func leadsOn(params string) bool {
	next := false
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.Trim(param, " ,\t"), "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(value, `" `)
		if name == "results" && value == "false" {
			return false
		}
		next = next || name == "rel" && hasWord(value, "next")
	}
	return next
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}
