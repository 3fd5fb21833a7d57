package tally

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestWhatBecameOfARequest(t *testing.T) {
	t.Parallel()
	var c Counter
	refused := func(code runtime.Code, reason runtime.Reason) *runtime.Record {
		return &runtime.Record{Err: &runtime.Error{Code: code, Reason: reason}}
	}
	unwelcome := &runtime.Record{Action: &runtime.Action{Service: "github"}, Credential: "github.token"}
	unwelcome.Result.Status, unwelcome.Result.Used = http.StatusUnauthorized, runtime.CredentialStored
	for _, r := range []*runtime.Record{
		{}, unwelcome, refused(runtime.CodeForbidden, ""), refused(runtime.CodeApprovalPending, ""), refused(runtime.CodeUpstream, ""),
		refused(runtime.CodeCanceled, runtime.ReasonClientRejected), refused(runtime.CodeCanceled, runtime.ReasonTunnelUnopened),
	} {
		c.Note(r)
	}
	got := c.Counts()
	if got.Requests != 6 || got.Denied != 1 || got.Pending != 1 || c.Rejected() != 1 {
		t.Errorf("counted %+v, and %d programs that did not take the certificate", got, c.Rejected())
	}
	if got.Unauthorized["github"] != runtime.CredentialStored || len(got.Unauthorized) != 1 {
		t.Errorf("services that did not take their key: %v", got.Unauthorized)
	}
	page := *unwelcome
	page.Result.Used = runtime.CredentialWithheld
	if c.Note(&page); c.Counts().Unauthorized["github"] != runtime.CredentialStored {
		t.Error("a page that got no key hid that the stored one is not accepted")
	}
	(*Counter)(nil).Note(&runtime.Record{})
	(*Lent)(nil).Note(&runtime.Record{})
}

// Of a program that does not take the certificate the line at the end speaks, but not where
// its host had requests before or after that: then a connection was opened ahead.
func TestHostsWhoseCertificateNobodyTook(t *testing.T) {
	t.Parallel()
	var c Counter
	note := func(host string, action *runtime.Action, reason runtime.Reason) {
		r := &runtime.Record{Surface: runtime.SurfaceProxy, Action: action, Target: runtime.Target{Scheme: "https", Authority: host}}
		if reason != "" {
			r.Err = &runtime.Error{Code: runtime.CodeCanceled, Reason: reason}
		}
		c.Note(r)
	}
	const before, after, never = "before.test:443", "after.test:443", "never.test:443"
	action := &runtime.Action{Service: "notes"}
	note(before, action, "")
	for _, host := range []string{before, after, never} {
		for range 3 {
			note(host, nil, runtime.ReasonClientRejected)
		}
	}
	note(after, action, "")
	note("other.test:443", nil, runtime.ReasonTunnelUnopened)
	c.Note(&runtime.Record{Action: action, Target: runtime.Target{Scheme: "https", Authority: never}}) // of a call
	if got := c.Counts().Untrusting; got != 1 {
		t.Errorf("%d hosts, want %s alone", got, never)
	}
	for i := range 2 * maxHosts {
		note(strconv.Itoa(i), nil, runtime.ReasonClientRejected)
	}
	if got := c.Counts().Untrusting; got >= maxHosts {
		t.Errorf("%d hosts are kept", got)
	}
}

// A program that asks the proxy for https without CONNECT gets nowhere, and many say little.
func TestProgramsThatAskWithoutCONNECT(t *testing.T) {
	t.Parallel()
	var c Counter
	c.Note(&runtime.Record{Err: &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInvalidHost}})
	if got := c.Counts().Unconnected; got != 0 {
		t.Errorf("%d before there was one", got)
	}
	c.Note(&runtime.Record{Err: &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonWithoutConnect}})
	if got := c.Counts(); got.Unconnected != 1 || got.Denied != 2 {
		t.Errorf("counted %+v", got)
	}
}

// A body that is too large to be judged, or no JSON, is refused here and never sent: an
// agent whose conversation has outgrown a rule hears that its host has a limit.
func TestWhatCannotBeJudgedIsDenied(t *testing.T) {
	t.Parallel()
	var c Counter
	c.Note(&runtime.Record{Err: &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonBodyTooLarge}})
	c.Note(&runtime.Record{Err: &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge}})
	if got := c.Counts(); got.Requests != 2 || got.Denied != 1 {
		t.Errorf("counted %+v", got)
	}
}

func TestARunElsewhereIsItsPrincipalsAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := NewLent(func() time.Time { return now })
	one, other := runtime.Principal{ID: "tok_one"}, runtime.Principal{ID: "tok_other"}
	leave, counted := l.Enter(one, "r")
	if _, taken := l.Enter(other, "r"); !counted || taken {
		t.Fatalf("counted for the first: %v, for another of that name: %v", counted, taken)
	}
	l.Note(&runtime.Record{Via: &runtime.Via{Run: "r"}})
	l.Note(&runtime.Record{Via: &runtime.Via{Run: "unknown"}})
	l.Note(&runtime.Record{})
	leave()
	if l.Ended(t.Context(), other, "r") != nil {
		t.Error("another principal is told of the run")
	}
	if c := l.Ended(t.Context(), one, "r"); c == nil || c.Counts().Requests != 1 {
		t.Errorf("counts of the run: %+v", c)
	}
	now = now.Add(lentRunKept + time.Second)
	if _, free := l.Enter(other, "r"); !free {
		t.Error("the name of a run that ended long ago is not free")
	}
}

func TestRunsElsewhereAreBounded(t *testing.T) {
	t.Parallel()
	l := NewLent(time.Now)
	one := runtime.Principal{ID: "tok_one"}
	for i := range lentRunsEach {
		if _, counted := l.Enter(one, strconv.Itoa(i)); !counted {
			t.Fatalf("run %d of one principal is not counted", i)
		}
	}
	if _, counted := l.Enter(one, "one more"); counted {
		t.Error("there is no bound for one principal")
	}
	if _, counted := l.Enter(runtime.Principal{ID: "tok_other"}, "r"); !counted {
		t.Error("the runs of one principal keep out those of another")
	}
}
