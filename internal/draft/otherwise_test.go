package draft_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

const branches = `name: git
version: 1.0.0
description: Branches, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  get: {description: Read a branch, method: GET, path: "/branches/{name}", risk: {level: low}, args: [{name: name, required: true}, {name: of, required: true}], request: {query: {of: "{of}"}}}
`

const noProd = `version: 1
rules:
  - {name: no-prod, match: {action: git.get}, when: 'args.name == "prod"', then: deny}
`

// A recorded request is judged again in each reading, as it was.
func TestRecordsAreJudgedInEachReading(t *testing.T) {
	k := apptest.New(t, apptest.Options{Services: []string{branches}, Policy: noProd})
	mark := k.Mark(t)
	for _, name := range []string{"prod%3Fx", "pr%256Fd", "fix%23123"} {
		_ = k.Do(t, "GET https://"+apptest.Host+"/branches/"+name+"?of=a", "")
	}
	k.Await(t, mark, 4) // two are refused
	r, err := k.App.Replay(t.Context(), drafted(t, k.App, noProd), app.ReplayQuery{})
	if err != nil || r.Requests != 3 || r.Same != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A case is judged in each reading, however it says what it is, as the request would be.
func TestCasesAreJudgedInEachReading(t *testing.T) {
	k := apptest.New(t, apptest.Options{Services: []string{branches}})
	d := drafted(t, k.App, noProd)
	for name, c := range map[string]policy.Case{
		"by its URL":            {Request: "GET https://" + apptest.Host + "/branches/prod%3Fx"},
		"by a URL with a user":  {Request: "GET https://me:pw@" + apptest.Host + "/branches/dev?of=a", Expect: runtime.EffectAllow},
		"by name":               {Action: "git.get", Args: runtime.Args{"name": "prod?x", "of": "a"}},
		"by name, and no prod":  {Action: "git.get", Args: runtime.Args{"name": "fix#1", "of": "a"}, Expect: runtime.EffectAllow},
		"by name, not all said": {Action: "git.get", Args: runtime.Args{"name": "dev"}, Expect: runtime.EffectAllow},
	} {
		if c.Expect == "" {
			c.Expect = runtime.EffectDeny
		}
		got, err := d.Judge(&c)
		if err != nil || got.Verdict.Effect != c.Expect {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
