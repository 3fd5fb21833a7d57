package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A text that was written for a terminal has the names of this API; a command that only a
// terminal has stays as it is.
func TestFlagsAreMembersHere(t *testing.T) {
	for text, want := range map[string]string{
		"--for is a duration from 1s to 168h":                                         "for is a duration from 1s to 168h",
		"accept it without --for, --run and --always":                                 "accept it without for and run",
		"look at all of it with --full, then accept it with --full":                   `look at all of it with GET /v1/approvals/{id}?full=true, then accept it with "full": true`,
		"one of them accepts it with: kimbap approve accept ID --as NAME":             `one of them accepts it with "as": "NAME"`,
		"somebody else must: kimbap approve accept apr_1 --as NAME":                   `somebody else must, with "as": "NAME"`,
		"ask for fewer with --max":                                                    "ask for fewer with max",
		"the owner makes one with: kimbap token create --agent NAME --scope GLOB":     "",
		"kimbap unlock; then kimbap lock --for 8h":                                    "",
		"kimbap link github --rebind":                                                 "",
		"ask whoever runs this kimbap for: kimbap service install x --var NAME=VALUE": "",
		"go on with: kimbap exec --resume exe_1":                                      "",
	} {
		if want == "" {
			want = text
		}
		if got := inMembers(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// The daemon's socket is asked by the command itself, whose user has flags: there a text stays
// as it is with a kimbap that does it by itself.
func TestOnTheDaemonsSocketFlagsStay(t *testing.T) {
	o := Options{Execute: func(context.Context, Script) (Answer, error) {
		return Answer{}, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "no", Hint: "leave --all and --max out"}
	}}
	for _, command := range []bool{true, false} {
		o.Cause = command
		client, base := open(t, false, o)
		if _, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`); strings.Contains(text, "leave --all and --max out") != command {
			t.Errorf("asked by the command %t: %s", command, text)
		}
	}
}

// With --server, and in a run, it is the command that asks as well: its user cannot send members.
func TestTheCommandElsewhereIsToldOfFlags(t *testing.T) {
	client, base := open(t, false, Options{Execute: func(context.Context, Script) (Answer, error) {
		return Answer{}, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "no", Hint: "--for 10m"}
	}})
	for agent, want := range map[string]string{"kimbap": "--for 10m", "": `"for": "10m"`, "curl/8.5.0": `"for": "10m"`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/exec", strings.NewReader(`{"code":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", agent)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var p runtime.Problem
		err = json.NewDecoder(answer.Body).Decode(&p)
		_ = answer.Body.Close()
		if err != nil || p.Hint != want {
			t.Errorf("%q is told %q, %v", agent, p.Hint, err)
		}
	}
}
