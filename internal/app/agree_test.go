package app_test

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What the resolver has built must be, to who reads it, the action that was judged, with
// the arguments that were judged, for every action of the catalogue.
func TestBuiltRequestsAreTheActionThatWasJudged(t *testing.T) {
	t.Parallel()
	var files []services.File
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, services.File{Name: name + ".yaml", Data: bytes.ReplaceAll(data, []byte("{site}"), []byte("acme.example"))})
	}
	catalogue, err := services.ParseAll(files)
	if err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	built := 0
	for _, s := range set.Services() {
		if s.Adapter != "http" {
			continue
		}
		for _, a := range s.Actions {
			for _, style := range []string{"plain", "needs escaping", "what is required only"} {
				if agree(t, set, a, style) {
					built++
				}
			}
		}
	}
	if built < 3000 {
		t.Errorf("only %d requests were built", built)
	}
}

func agree(t *testing.T, set *services.Set, a *runtime.Action, style string) bool {
	t.Helper()
	found, err := set.Resolve(&runtime.Request{Surface: runtime.SurfaceCall, Action: a.Ref, Args: sample(a, style)})
	if err != nil {
		// A refusal is agreement: nothing is built. That most are not refused is
		// counted above.
		if style == "plain" && !strings.HasSuffix(a.HTTP.Path, "**") {
			t.Errorf("%s (%s): %v", a.Ref, style, err)
		}
		return false
	}
	args, r := found.Args, found.Built
	in := classifier.Input{Scheme: r.Scheme, Authority: r.Authority, Method: r.Method, Target: r.Target, Header: http.Header(r.Header)}
	m, err := set.Table().Match(in)
	if err == nil && m.NeedBody {
		if in.Body, err = classifier.ParseBody(r.Header.Get("Content-Type"), "", r.Body); err == nil {
			m, err = set.Table().Match(in)
		}
	}
	if err != nil || m.Action != string(a.Ref) {
		t.Errorf("%s (%s) is built as %s %s, which is %q: %v", a.Ref, style, r.Method, r.Target, m.Action, err)
		return false
	}
	for _, p := range a.Params {
		if got, read := m.Args[p.Name]; read && (p.In == runtime.InPath || p.In == runtime.InQuery) && !reflect.DeepEqual(got, args[p.Name]) {
			t.Errorf("%s (%s): %s was judged as %v and is read as %v", a.Ref, style, p.Name, args[p.Name], got)
		}
	}
	return true
}

// sample gives the arguments of an action values that its schema takes.
func sample(a *runtime.Action, style string) runtime.Args {
	args := runtime.Args{}
	for _, p := range a.Params {
		if style == "what is required only" && !p.Required {
			continue
		}
		if strings.HasSuffix(a.HTTP.Path, "/git-receive-pack") && p.Name == "refs" {
			continue // read from the push itself
		}
		args[p.Name] = sampleOf(p, style)
	}
	switch {
	case a.Name == "graphql-query":
		args["query"] = "query Q { viewer { login } }"
	case a.Name == "graphql-secret-query":
		args["query"] = "query Q { project { ciVariables { key } } enterprise { recoveryCodes } }"
	case a.Name == "graphql-mutation":
		args["query"] = "mutation Q { addStar(input: {}) { clientMutationId } }"
	case a.Name == "graphql-guarded":
		args["query"] = "mutation Q { deleteIssue(input: {}) { clientMutationId } issueDelete(id: 1) { success } }"
	case a.Name == "graphql-grant":
		args["query"] = "mutation Q { inviteEnterpriseAdmin(input: {}) { id } webhookCreate(input: {}) { success } clusterAgentTokenCreate(input: {}) { secret } }"
	case a.Service == "linear" && a.Name == "delete-organization":
		args["query"] = "mutation Q { organizationDelete { success } }"
	}
	if _, given := args["operationName"]; given {
		args["operationName"] = "Q"
	}
	return args
}

func sampleOf(p runtime.Param, style string) any {
	if style == "needs escaping" {
		return servicestest.Sample(p, "x"+p.Name+" é&+=?#%\"")
	}
	return servicestest.Sample(p, "x"+strings.ReplaceAll(p.Name, "_", "-"))
}
