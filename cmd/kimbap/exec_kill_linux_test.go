package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"
)

// killedStory writes, reads, races two reads, and deletes what a person must decide.
// The read that was begun first loses: it is answered only when the script goes on.
const killedStory = `
const made = await tools.notes.createNote({title: "rice"});
const read = await tools.notes.getNote({id: "a"});
const slow = tools.notes.getNote({id: "slow"});
const winner = await Promise.race([slow, tools.notes.getNote({id: "quick"})]);
await tools.notes.getNote({id: "after"});
await slow;
console.log(Date.now(), Math.random());
const gone = await tools.notes.deleteNote({id: winner.did.slice(-5)});
await tools.notes.createNote({title: "end"});
return [made, read, winner, gone].map(x => x.did);`

// Paused, killed with kill -9, started again over the same home: the script goes on
// after a person's yes, nothing is done twice, and who won a race has won it.
func TestAScriptOutlivesItsKilledProxy(t *testing.T) {
	for _, where := range []string{"unix", "tcp"} {
		t.Run(where, func(t *testing.T) {
			r := newScriptRig(t)
			var args []string
			if where == "tcp" {
				args = []string{"--sidecar", "127.0.0.1:0"}
				r.token = r.kimbap("", "token", "create", "--agent", "bot", "--scope", "notes.*")
			}
			r.serve(args...)
			if !strings.HasPrefix(r.where, map[string]string{"unix": "unix:", "tcp": "http://127.0.0.1:"}[where]) {
				t.Fatalf("it serves on %s", r.where)
			}
			first := r.must(202, "POST", "/v1/exec", map[string]any{"code": killedStory})
			if first.Paused == nil || first.Paused.ToolPath != "notes.delete-note" || len(first.Logs) != 1 {
				t.Fatalf("%s", first.text)
			}
			before := map[string]int{"POST /notes rice": 1, "GET /notes/a": 1, "GET /notes/slow": 1, "GET /notes/quick": 1, "GET /notes/after": 1}
			r.saw(before)
			r.kill()
			r.serve(args...)
			id := "/v1/exec/" + first.ExecutionID
			for _, got := range []told{r.must(202, "GET", id, nil), r.must(202, "POST", id+"/resume", map[string]any{})} {
				if got.Paused == nil || got.Paused.ApprovalID != first.Paused.ApprovalID {
					t.Fatalf("after the restart: %s", got.text)
				}
			}
			if token := r.token; token != "" {
				r.token = ""
				r.must(401, "POST", id+"/resume", map[string]any{})
				r.token = token
			}
			r.kimbap("", "approve", "accept", first.Paused.ApprovalID)
			r.saw(before)
			end := r.must(200, "POST", id+"/resume", map[string]any{})
			want := `["POST /notes rice","GET /notes/a","GET /notes/quick","DELETE /notes/quick"]`
			if !end.Success || string(end.Value) != want || len(end.Logs) != 1 || end.Logs[0] != first.Logs[0] {
				t.Fatalf("%s\nbefore it said %v", end.text, first.Logs)
			}
			before["DELETE /notes/quick"], before["POST /notes end"] = 1, 1
			r.saw(before)
			if again := r.must(200, "POST", id+"/resume", map[string]any{}); string(again.Value) != want {
				t.Errorf("resumed after its end: %s", again.text)
			}
			r.saw(before)
			r.kimbap("", "audit", "verify")
		})
	}
}

// saw holds the upstream to what it was asked, and how often.
func (r *scriptRig) saw(want map[string]int) {
	r.t.Helper()
	if got := r.api.seen(); !maps.Equal(got, want) {
		r.t.Fatalf("the upstream saw %v, want %v", got, want)
	}
}

// No, and no answer: after a kill the call throws, and the script can catch it.
func TestADecisionReachesAScriptOfAKilledProxy(t *testing.T) {
	for _, c := range []struct {
		id, want string
		decide   func(r *scriptRig, approval string)
	}{
		{"a", "approval_rejected", func(r *scriptRig, approval string) { r.kimbap("", "approve", "reject", approval) }},
		{"brief", "approval_expired", func(*scriptRig, string) {}},
	} {
		t.Run(c.want, func(t *testing.T) {
			r := newScriptRig(t)
			r.serve()
			first := r.must(202, "POST", "/v1/exec", map[string]any{"code": `
				const made = await tools.notes.createNote({title: "rice"});
				try { await tools.notes.deleteNote({id: "` + c.id + `"}); }
				catch (e) { return [made.did, e instanceof ToolError, e.name, e.code, e.tool]; }`})
			if first.Paused == nil {
				t.Fatalf("%s", first.text)
			}
			r.kill()
			r.serve()
			c.decide(r, first.Paused.ApprovalID)
			end := r.must(200, "POST", "/v1/exec/"+first.ExecutionID+"/resume", map[string]any{"wait": "1m"})
			if want := `["POST /notes rice",true,"ToolError","` + c.want + `","notes.delete-note"]`; string(end.Value) != want {
				t.Errorf("%s, want %s", end.text, want)
			}
			r.saw(map[string]int{"POST /notes rice": 1})
			r.kimbap("", "audit", "verify")
		})
	}
}

// Killed while the upstream holds a call: one that may be repeated is, and the script
// ends well; one that may not is left alone, and the execution says so.
func TestAProxyKilledWhileACallIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name, call, held, kind string
		times                  int
	}{
		{"one that may be repeated", `getNote({id: "held"})`, "GET /notes/held", "", 2},
		{"one that may not", `createNote({title: "held"})`, "POST /notes held", "interrupted", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newScriptRig(t)
			r.api.hold(true)
			r.serve()
			client := make(chan error, 1)
			go func() {
				got, err := r.ask("POST", "/v1/exec", map[string]any{"code": `
					const made = await tools.notes.createNote({title: "rice"});
					return [made.did, (await tools.notes.` + c.call + `).did];`})
				if err == nil {
					t.Errorf("the proxy was killed, and answered %s", got.text)
				}
				client <- err
			}()
			select {
			case <-r.api.arrived:
			case <-time.After(deadline):
				t.Fatal("the call never came")
			}
			id := "/v1/exec/" + r.begun()
			r.kept(id)
			r.kill()
			<-client
			r.api.hold(false)
			r.serve()
			if got := r.must(200, "GET", id, nil); got.Kind != "interrupted" || !strings.Contains(got.Error, "resume") {
				t.Errorf("after the restart: %s", got.text)
			}
			want := map[string]int{"POST /notes rice": 1, c.held: 1}
			r.saw(want)
			for range 2 { // the second time it has ended
				end := r.must(200, "POST", id+"/resume", map[string]any{})
				if end.Kind != c.kind || end.Success != (c.kind == "") {
					t.Fatalf("%s", end.text)
				}
				if last := end.Calls[len(end.Calls)-1]; c.kind != "" && (last.Status != "unknown" || !strings.Contains(end.Error, "may not be repeated")) {
					t.Errorf("%s", end.text)
				}
				if c.kind == "" && string(end.Value) != `["POST /notes rice","`+c.held+`"]` {
					t.Errorf("%s", end.text)
				}
			}
			want[c.held] = c.times
			r.saw(want)
			r.kimbap("", "audit", "verify")
		})
	}
}

// begun is the id of the last execution that the trail has.
func (r *scriptRig) begun() string {
	r.t.Helper()
	var id string
	check(r.t, json.Unmarshal([]byte(r.kimbap("", "audit", "search", "--text", "exec.start", "--limit", "1", "-o", "json", "--jq", ".[0].execution")), &id))
	if !regexp.MustCompile(`^exe_[0-9a-z]+$`).MatchString(id) {
		r.t.Fatalf("no execution has begun: %q", id)
	}
	return id
}

// kept waits until the journal has the call that is under way.
func (r *scriptRig) kept(id string) {
	r.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if got, err := r.ask("GET", id, nil); err == nil && got.status == 202 {
			return
		}
	}
	r.t.Fatal("the execution is not kept")
}
