package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// flagged is an error whose hint has a flag, and a member for who has none.
func flagged() *runtime.Error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "no", Hint: "--for 10m", Ask: `"for": "10m"`}
}

// script asks base to execute something, as agent, and returns the problem that it answers.
func script(t *testing.T, client *http.Client, base, agent string) (p problem) {
	t.Helper()
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
	err = json.NewDecoder(answer.Body).Decode(&p)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

// Who asks here has members of a body and parameters. The command has flags for the same, on
// the socket of the daemon, with --server, and in a run; but behind the command may be a client
// of MCP, so it is told of both.
func TestHintsAreForWhoAsks(t *testing.T) {
	for _, own := range []bool{false, true} {
		client, base := open(t, false, Options{Cause: own, Execute: func(context.Context, Script) (Answer, error) { return Answer{}, flagged() }})
		for agent, command := range map[string]bool{"kimbap": true, "": own, "curl/8.5.0": own} {
			p, want := script(t, client, base, agent), problem{}
			if want.Hint, want.Ask = flagged().Ask, ""; command {
				want.Hint, want.Ask = flagged().Hint, flagged().Ask
			}
			if p.Hint != want.Hint || p.Ask != want.Ask {
				t.Errorf("the command's own socket %t: %q is told %q, %q", own, agent, p.Hint, p.Ask)
			}
		}
	}
}
