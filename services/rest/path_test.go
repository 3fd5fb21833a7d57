package rest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// own is the placeholder of the service of these tests, placed its canary as one
// segment of a path.
const (
	own    = "1234567890:kimbap"
	placed = "/botkbcanary-7f3a9c%2FZx+Q81w=="
)

// pathCall is a caller's request whose credential is the first segment.
func pathCall(r *rig, caller runtime.CallerAuth, target string, fields ...string) *runtime.Call {
	call := r.call("GET", target, fields...)
	call.Action.Auth = &runtime.Auth{
		Type: runtime.AuthPath, Ref: "test", Segment: "token", Prefix: "bot", Caller: caller,
		Placeholders: map[string]string{"BOT_TOKEN": own},
	}
	call.Action.HTTP.Path, call.Action.HTTP.Segment = "/{token}/{method}", 1
	return call
}

// The stored credential takes the place of one segment, and every other byte of
// the target stays.
func TestACredentialInThePathReplacesItsSegmentAlone(t *testing.T) {
	for name, c := range map[string]struct{ target, want string }{
		"the placeholder":         {"/bot" + own + "/sendMessage?chat=a%2fb&text=%e2", placed + "/sendMessage?chat=a%2fb&text=%e2"},
		"percent-encoded":         {"/bot%31234567890%3Akimbap/sendMessage", placed + "/sendMessage"},
		"its prefix too":          {"/%62ot1234567890:kimbap/sendMessage", placed + "/sendMessage"},
		"another token":           {"/bot42:mine/sendMessage", placed + "/sendMessage"},
		"another, as two":         {"/bot42:mine%2Fmine/sendMessage", placed + "/sendMessage"},
		"nothing behind it":       {"/bot" + own, placed},
		"a final slash":           {"/bot" + own + "/", placed + "/"},
		"a query and no path":     {"/bot" + own + "?a=/b/c", placed + "?a=/b/c"},
		"what looks like a token": {"/bot" + own + "/bot42:mine", placed + "/bot42:mine"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			_, result := r.must(t, pathCall(r, runtime.CallerReplace, c.target))
			equal(t, "used", result.Used, runtime.CredentialStored)
			equal(t, "line", r.Last(t).Line, "GET "+c.want+" HTTP/1.1")
			if !slices.Contains(result.Changed, runtime.Change{Kind: runtime.ChangeCredentialPath, Name: "1"}) {
				t.Errorf("the change was not declared: %v", result.Changed)
			}
		})
	}
}

// What stands anywhere else than in its segment, or is no token, goes nowhere.
func TestAPlaceholderOutsideItsSegmentIsRefused(t *testing.T) {
	const good = "/bot" + own + "/send"
	for name, c := range map[string]struct {
		target string
		fields []string
		code   runtime.Code
		reason runtime.Reason
	}{
		"twice in the path":         {good + "/bot" + own, nil, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder},
		"twice, the second encoded": {good + "/%62ot1234567890%3akimbap", nil, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder},
		"twice, bare":               {good + "/" + own, nil, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder},
		"in the query":              {good + "?url=https://a.test/bot" + own + "/x", nil, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder},
		"in the query, encoded":     {good + "?url=x%2Fbot1234567890%3Akimbap", nil, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder},
		"in a field":                {good, []string{"X-Token: bot" + own}, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder},
		"no token there":            {"/health/send", nil, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
		"an empty token":            {"/bot/send", nil, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
		"the prefix in capitals":    {"/BOT" + own + "/send", nil, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
		"no path at all":            {"/", nil, runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			r.refused(t, pathCall(r, runtime.CallerReplace, c.target, c.fields...), c.code, c.reason)
			equal(t, "requests", len(r.Requests()), 0)
		})
	}
}

func TestWhoseTokenGoesInThePath(t *testing.T) {
	const real = "/bot42:mine/send"
	for name, c := range map[string]struct {
		caller runtime.CallerAuth
		target string
		stored bool
		line   string // "": refused with code
		code   runtime.Code
	}{
		"placeholder only, another":     {runtime.CallerPlaceholder, real, true, "", runtime.CodeForbidden},
		"placeholder only, as asked":    {runtime.CallerPlaceholder, "/bot" + own + "/send", true, placed + "/send", ""},
		"keep another":                  {runtime.CallerKeep, real, true, real, ""},
		"keep, but the placeholder":     {runtime.CallerKeep, "/bot" + own + "/send", true, placed + "/send", ""},
		"nothing stored":                {runtime.CallerReplace, real, false, real, ""},
		"nothing stored, a placeholder": {runtime.CallerReplace, "/bot" + own + "/send", false, "", runtime.CodeNoCredential},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			call := pathCall(r, c.caller, c.target)
			if !c.stored {
				call.Credential = runtime.Credential{}
			}
			if c.code != "" {
				r.refused(t, call, c.code, "")
				equal(t, "requests", len(r.Requests()), 0)
				return
			}
			r.must(t, call)
			equal(t, "line", r.Last(t).Line, "GET "+c.line+" HTTP/1.1")
		})
	}
}

// An action whose path has no place for the credential gets none.
func TestAPathWithoutThePlaceGetsNoCredential(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	call := pathCall(r, runtime.CallerReplace, "/about")
	call.Action.HTTP.Path, call.Action.HTTP.Segment = "/**", 0
	_, result := r.must(t, call)
	equal(t, "used", result.Used, runtime.CredentialNone)
	equal(t, "line", r.Last(t).Line, "GET /about HTTP/1.1")
	call = pathCall(r, runtime.CallerReplace, "/bot"+own)
	call.Action.HTTP.Path, call.Action.HTTP.Segment = "/**", 0
	r.refused(t, call, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder)
}

// An upstream that shows its request shows no token, and neither does a failure.
func TestATokenInThePathDoesNotComeBack(t *testing.T) {
	shows := func(c *servicestest.Conn, r *servicestest.Request) bool {
		return c.Send("HTTP/1.1 404 no "+r.Target+"\r\nX-Target: "+r.Target+"\r\nContent-Length: ", strconv.Itoa(len(r.Target)), "\r\n\r\n", r.Target)
	}
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{placed + "/show": shows}})
	answer, _ := r.must(t, pathCall(r, runtime.CallerReplace, "/bot"+own+"/show"))
	if got := string(answer.Body) + answer.Header.Get("X-Target"); strings.Contains(got, "kbcanary") || !strings.HasSuffix(got, "/show") {
		t.Errorf("the caller sees %q", got)
	}
	call := pathCall(r, runtime.CallerReplace, "/bot"+own+"/send")
	r.Close()
	_, _, err := r.do(t, call)
	if err == nil || strings.Contains(err.Error(), "kbcanary") || strings.Contains(runtime.AsError(err).Error(), "kbcanary") {
		t.Errorf("the failure says %v", err)
	}
}

// A built request has a word in the place of the credential, and shows none.
func TestABuiltRequestPutsTheCredentialIntoThePath(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	call := pathCall(r, runtime.CallerReplace, "/")
	call.Request.Raw, call.Request.Target = nil, runtime.Target{}
	call.Action.HTTP.PathParams = map[string]string{"token": "bot" + runtime.PathCredential, "method": "{method}"}
	call.Args = runtime.Args{"method": "getMe"}
	r.must(t, call)
	equal(t, "line", r.Last(t).Line, "GET "+placed+"/getMe HTTP/1.1")
	shown, err := r.backend.Preview(call.Action, call.Built)
	if err != nil || !strings.HasSuffix(shown.URL, "/bot[secret]/getMe") {
		t.Errorf("a dry run shows %v, %v", shown, err)
	}
}
