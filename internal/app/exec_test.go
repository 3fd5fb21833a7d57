package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// scripting is a whole kimbap whose sidecar listens on a socket.
func scripting(t *testing.T, o apptest.Options) (*apptest.Kimbap, *http.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kimbap-*") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	o.Scripts, o.Serve.Sidecar = apptest.Worker(t), "unix:"+socket
	k := apptest.New(t, o)
	return k, socketClient(t, socket)
}

func socketClient(t *testing.T, socket string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// scripted is what the sidecar answers.
type scripted struct {
	app.ScriptResult
	Code   string `json:"code"` // of a problem
	status int
	text   string
}

func post(t testing.TB, client *http.Client, path string, body any, token string) scripted {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("POST", "http://localhost"+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := scripted{status: answer.StatusCode, text: string(text)}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func execute(t testing.TB, client *http.Client, code string) scripted {
	t.Helper()
	return post(t, client, "/v1/exec", map[string]any{"code": code}, "")
}

// Each call of a script is a request like any other, and the script itself has a
// record before and after.
func TestScriptsGoThroughThePipeline(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	got := execute(t, client, `const r = await tools.notes.readAs({how: "reflect"}); await tools.notes.createNote({text: "x"}).catch(e => e.code); return r.length > 0 || typeof r`)
	if !got.Success || len(got.Calls) != 2 {
		t.Fatalf("%s", got.text)
	}
	var events, intents []string
	apptest.Eventually(t, "all records", func() bool {
		events, intents = nil, nil
		for _, r := range k.Records(t) {
			if !strings.Contains(r.Line, `"execution":"`+got.ExecutionID+`"`) {
				continue
			}
			switch r.Kind {
			case "event":
				events = append(events, r.Event+" "+r.Fields["result"])
			case "intent":
				intents = append(intents, r.Surface+" "+r.Action)
			}
		}
		return len(events) == 2
	})
	if fmt.Sprint(events) != "[exec.start  exec.end ok]" || fmt.Sprint(intents) != "[exec notes.read-as exec notes.create-note]" {
		t.Errorf("%v %v", events, intents)
	}
	for _, r := range k.Up.Requests() {
		if r.Header.Get("Authorization") != "Bearer "+apptest.Key {
			t.Errorf("without the credential: %s", r.Head)
		}
	}
}

// A token's scopes bound what its scripts can do, and find.
func TestScopesBoundScripts(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	person := k.Open(t, "")
	token, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "bot", Scopes: []string{"notes.get-*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got := post(t, client, "/v1/exec", map[string]any{"code": `
		const found = (await tools.search({query: ""})).items.map(i => i.name);
		const described = (await tools.describe.tool({path: "notes.createNote"})).error.code;
		const refused = await tools.notes.createNote({text: "x"}).catch(e => e.code);
		return [found, described, refused];`}, token.Reveal())
	if string(got.Value) != `[["notes.get-note"],"tool_not_found","forbidden"]` {
		t.Errorf("%s", got.text)
	}
	if n := len(k.Up.Requests()); n > 0 {
		t.Errorf("%d requests left", n)
	}
	if bad := post(t, client, "/v1/exec", map[string]any{"code": "return 1"}, "kmb_nobody"); bad.status != 401 {
		t.Errorf("%d %s", bad.status, bad.text)
	}
}

// One paused script, two who may not go on with it, one who may, and once.
func TestPausedScriptsAreResumedByTheirOwner_EX017(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	person := k.Open(t, "")
	token, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "other", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got := execute(t, client, `return await tools.notes.deleteNote({id: 7}) || "gone"`)
	if got.status != 202 || got.Paused == nil {
		t.Fatalf("%d %s", got.status, got.text)
	}
	resume := "/v1/exec/" + got.ExecutionID + "/resume"
	if early := post(t, client, resume, map[string]any{}, ""); early.status != 202 || early.Paused == nil {
		t.Errorf("before the decision: %d %s", early.status, early.text)
	}
	if foreign := post(t, client, resume, map[string]any{}, token.Reveal()); foreign.status != 404 {
		t.Errorf("by another token: %d %s", foreign.status, foreign.text)
	}
	if changed := post(t, client, resume, map[string]any{"code": "return 1"}, ""); changed.status != 400 {
		t.Errorf("with another script: %d %s", changed.status, changed.text)
	}
	if _, err := person.Accept(t.Context(), got.Paused.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it has ended already
		if end := post(t, client, resume, map[string]any{}, ""); end.status != 200 || !end.Success {
			t.Errorf("%d %s", end.status, end.text)
		}
	}
	if n := len(k.Up.Requests()); n != 1 {
		t.Errorf("%d requests left", n)
	}
}

// What a person left undecided is over when the question is.
func TestExpiredApprovalsThrow(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{Policy: `version: 1
rules:
  - {name: soon, match: {action: notes.delete-note}, then: require_approval, approval: {expires: 1s}}
`})
	got := execute(t, client, `return await tools.notes.deleteNote({id: 7}).catch(e => [e.name, e.code])`)
	if got.Paused == nil {
		t.Fatalf("%s", got.text)
	}
	end := post(t, client, "/v1/exec/"+got.ExecutionID+"/resume", map[string]any{"wait": "1m"}, "")
	if string(end.Value) != `["ToolError","approval_expired"]` || len(k.Up.Requests()) > 0 {
		t.Errorf("%s", end.text)
	}
}

// A question that was closed since a yes for a while allows its call fails no script, and one that
// is open keeps none waiting: the call is made by that yes.
func TestAPausedScriptGoesOnByAYesForAWhile(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{Policy: "version: 1\nrules:\n  - {name: ask, match: {action: notes.create-note}, then: require_approval}\n"})
	create := func(text string) scripted {
		return execute(t, client, `return await tools.notes.createNote({text: "`+text+`"}).then(() => "made")`)
	}
	paused, like := create("one"), create("two")
	both := execute(t, client, `return await Promise.all(["three", "four"].map(text => tools.notes.createNote({text}))).then(() => "made")`)
	if paused.Paused == nil || like.Paused == nil || both.Paused == nil {
		t.Fatalf("%s %s %s", paused.text, like.text, both.text)
	}
	if _, err := k.Open(t, "").Accept(t.Context(), like.Paused.ApprovalID, app.Yes{For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if again := create("one"); string(again.Value) != `"made"` {
		t.Fatalf("%s", again.text)
	}
	for _, waits := range []scripted{paused, both} {
		if end := post(t, client, "/v1/exec/"+waits.ExecutionID+"/resume", map[string]any{}, ""); string(end.Value) != `"made"` {
			t.Errorf("%s", end.text)
		}
	}
}

// A script that waits by itself goes on by it, too, and not only when it is resumed.
func TestAScriptThatWaitsGoesOnByAYesForAWhile(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{Policy: "version: 1\nrules:\n  - {name: ask, match: {action: notes.create-note}, then: require_approval}\n"})
	create := func(text, wait string) scripted {
		code := `return await tools.notes.createNote({text: "` + text + `"}).then(() => "made")`
		return post(t, client, "/v1/exec", map[string]any{"code": code, "wait": wait}, "")
	}
	like := create("one", "0s")
	if like.Paused == nil {
		t.Fatalf("%s", like.text)
	}
	ended := make(chan scripted, 1)
	go func() { ended <- create("two", "1m") }()
	person := k.Open(t, "")
	apptest.Eventually(t, "the second is asked", func() bool {
		list, err := person.ListApprovals(t.Context(), false)
		return err == nil && len(list) == 2
	})
	if _, err := person.Accept(t.Context(), like.Paused.ApprovalID, app.Yes{For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if end := <-ended; string(end.Value) != `"made"` {
		t.Errorf("%s", end.text)
	}
}

// Fifty at once, a third of them hostile: the others all succeed, and this process
// stays as it was.
func TestHostileScriptsDoNotDisturbOthers_EX019(t *testing.T) {
	_, client := scripting(t, apptest.Options{Config: "exec: {workers: 4, timeout: 60s}\n"})
	hostile := []string{
		`for (;;) {}`, `const a = []; for (;;) a.push(new Array(1e6).fill("x"))`, `return "x".repeat(2 ** 40)`,
		`const f = () => f() + f(); return f()`, `for (let i = 0; i < 1e5; i++) console.log("y".repeat(1e4))`,
		`return /(x+x+)+y/.test("x".repeat(40))`,
	}
	before := residentNow(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	kinds := map[string]int{}
	for i := range 50 {
		wg.Go(func() {
			code, timeout := `return (await Promise.all([1, 2, 3].map(id => tools.notes.getNote({id})))).length`, 20_000
			if i%3 == 0 {
				code, timeout = hostile[i/3%len(hostile)], 1500
			}
			got := post(t, client, "/v1/exec", map[string]any{"code": code, "timeoutMs": timeout}, "")
			mu.Lock()
			defer mu.Unlock()
			if i%3 == 0 {
				kinds[string(got.Kind)]++
			} else if string(got.Value) != "3" {
				t.Errorf("script %d was disturbed: %d %.300s", i, got.status, got.text)
			}
		})
	}
	wg.Wait()
	if kinds["timeout"] == 0 || kinds["memory"] == 0 {
		t.Errorf("the hostile ones ended by %v: the scenario did not happen", kinds)
	}
	if grown := residentNow(t) - before; grown > 64<<20 {
		t.Errorf("this process grew by %d MiB", grown>>20)
	}
}

// residentNow is this process's memory in bytes; 0 where the system does not say. Not
// for parallel tests: their memory would be counted too.
func residentNow(t *testing.T) int {
	t.Helper()
	runtimetest.Alone(t)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var total, pages int
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// The stored credential is given back by the upstream in every way it knows, and
// never reaches a script: not its values, errors and logs, not what is kept of it.
func TestNoCredentialReachesAScript(t *testing.T) {
	t.Parallel()
	const canary = `cAn4ry/"stored"+5e0d9b7c=%z`
	k, client := scripting(t, apptest.Options{Unlinked: true})
	person := k.Open(t, "")
	if _, _, err := person.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(canary), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	got := execute(t, client, `
		const seen = [];
		for (const how of ["reflect", "401-once", "429", "garbage", "cut", "trailers", "large-head", "reflect"]) {
			try { seen.push(await tools.notes.readAs({how})); } catch (e) { seen.push([String(e), e.stack, JSON.stringify(e), Object.getOwnPropertyNames(e).map(n => String(e[n]))]); }
			console.log(seen[seen.length - 1]);
		}
		return seen;`)
	if !got.Success || len(got.Calls) != 8 || len(got.Logs) == 0 {
		t.Fatalf("%s", got.text)
	}
	if k.Up.Last(t).Header.Get("Authorization") != "Bearer "+canary {
		t.Fatal("the credential did not arrive: the scenario did not happen")
	}
	apptest.Eventually(t, "the result is kept", func() bool {
		r, err := client.Get("http://localhost/v1/exec/" + got.ExecutionID)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r.StatusCode == 200
	})
	places := map[string]string{"the result": got.text, "the log": k.Log.String()}
	if err := filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		places[path] = string(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for place, text := range places {
		if form, found := leaked(text, canary); found {
			t.Errorf("the credential is in %s as %s", place, form)
		}
	}
}

// What a script asked and was answered rests sealed.
func TestJournalsAreSealed(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	got := execute(t, client, `const word = "plainly-in-the-source"; await tools.notes.deleteNote({id: 4711}); return word`)
	if got.Paused == nil {
		t.Fatalf("%s", got.text)
	}
	for _, name := range []string{"kimbap.db", "kimbap.db-wal"} {
		data, err := os.ReadFile(filepath.Join(k.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("plainly-in-the-source")) || bytes.Contains(data, []byte(`"id":4711`)) {
			t.Errorf("%s holds a script's text", name)
		}
	}
}

// Neither kimbap's own ports nor its decisions are tools.
func TestScriptsCannotReachKimbapItself_EX018(t *testing.T) {
	t.Parallel()
	_, client := scripting(t, apptest.Options{})
	got := execute(t, client, `
		const out = [];
		for (const path of [["approve", "accept"], ["kimbap", "exec"], ["net", "pass"], ["net", "tunnel"], ["vault", "get"]])
			out.push(await tools[path[0]][path[1]]({id: "apr_1", host: "127.0.0.1"}).catch(e => e.code));
		return out;`)
	if want := strings.Repeat(`,"unknown_action"`, 5); string(got.Value) != "["+want[1:]+"]" {
		t.Errorf("%s", got.text)
	}
}

// A script of one caller leaves nothing for the next.
func TestScriptsLeaveNothingBehind_EX015(t *testing.T) {
	_, client := scripting(t, apptest.Options{})
	execute(t, client, `Object.prototype.left = 1; Array.prototype.map = () => "left"; setTimeout(() => {}, 1e6); console.log("left")`)
	got := execute(t, client, `return [({}).left, [1].map(x => x)].concat([typeof left])`)
	if string(got.Value) != `[null,[1],"undefined"]` || len(got.Logs) > 0 {
		t.Errorf("%s", got.text)
	}
}
