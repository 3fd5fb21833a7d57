package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// question is one request, as actions have it and as programs do.
type question struct {
	Action string
	Args   map[string]any
	Line   string // "GET /notes/7"
	Body   string
	want   string // what the caller is told: ok, a code, or a status of the upstream
}

// questions cover every kind of verdict and end. Those of one action that is
// limited must be asked in this order.
func questions() []question {
	note := func(id any) map[string]any { return map[string]any{"id": id} }
	read := func(how string) map[string]any { return map[string]any{"how": how} }
	text := func(text string) map[string]any { return map[string]any{"text": text} }
	return []question{
		{"notes.get-note", note(7), "GET /notes/7", "", "ok"},
		{"notes.get-note", note(json.Number("9007199254740991")), "GET /notes/9007199254740991", "", "ok"},
		{"notes.get-note", note(13), "GET /notes/13", "", "forbidden"},
		{"notes.get-note", note(14), "GET /notes/14", "", "approval_pending"},
		{"notes.get-note", note(99), "GET /notes/99", "", "ok"},
		{"notes.get-note", note(99), "GET /notes/99", "", "rate_limited"},
		{"notes.get-note", note(99), "GET /notes/99", "", "rate_limited"},
		{"notes.list-notes", map[string]any{"tag": "a b&c", "limit": 3}, "GET /lists/notes?limit=3&tag=a+b%26c", "", "ok"},
		{"notes.list-notes", map[string]any{"tag": "secret", "limit": 3}, "GET /lists/notes?limit=3&tag=secret", "", "forbidden"},
		{"notes.read-as", read("plain"), "GET /plain", "", "ok"},
		{"notes.read-as", read("429"), "GET /429", "", "429"},
		{"notes.read-as", read("401-once"), "GET /401-once", "", "401"},
		{"notes.read-as", read("garbage"), "GET /garbage", "", "upstream"},
		{"notes.read-as", read("chunked"), "GET /chunked", "", "ok"},
		{"notes.create-note", text("x"), "POST /notes", `{"text":"x"}`, "ok"},
		{"notes.create-note", text("<é> \"q\" 1.0"), "POST /notes", `{"text":"<é> \"q\" 1.0"}`, "ok"},
		{"notes.create-note", text("never"), "POST /notes", `{"text":"never"}`, "forbidden"},
		{"notes.create-note", text("ask"), "POST /notes", `{"text":"ask"}`, "approval_pending"},
		{"notes.delete-note", note(5), "DELETE /notes/5", "", "approval_pending"},
		{"notes.drop-notes", map[string]any{}, "DELETE /lists/notes", "", "forbidden"},
	}
}

const entrancePolicy = `version: 1
rules:
  - {name: thirteen, match: {action: notes.get-note}, when: args.id == 13, then: deny, reason: it brings bad luck}
  - {name: fourteen, match: {action: notes.get-note}, when: args.id == 14, then: require_approval}
  - {name: slowly, match: {action: notes.get-note}, when: args.id == 99, limit: {rate: 1/h, burst: 1}}
  - {name: tag, match: {action: notes.list-notes}, when: args.tag == "secret", then: deny}
  - {name: never, match: {action: notes.create-note}, when: args.text == "never", then: deny}
  - {name: ask, match: {action: notes.create-note}, when: args.text == "ask", then: require_approval}
`

// entranceNotes is the usual service, and actions with a query and of critical risk.
const entranceNotes = apptest.Notes + `  list-notes: {description: List notes, method: GET, path: /lists/notes, idempotent: true, risk: {level: low}, args: [{name: limit, type: integer}, {name: tag, type: string}], request: {query: {limit: "{limit}", tag: "{tag}"}}}
  drop-notes: {description: Delete all, method: DELETE, path: /lists/notes, risk: {level: critical}}
`

// asker makes a request through an entrance and returns what its caller is told.
type asker func(t *testing.T, q question) string

// entrance is one way into kimbap. To add one, write its row.
type entrance struct {
	name, surface string
	open          func(t *testing.T, k *apptest.Kimbap) asker
}

func entrances() []entrance {
	return []entrance{
		{"call", "call", throughCall},
		{"proxy", "proxy", throughProxy},
		{"run", "proxy", throughRun},
		{"exec", "exec", throughExec},
		{"sidecar", "exec", throughSidecar},
		{"serve", "rest", throughServe},
		{"daemon", "call", throughDaemon},
		{"call at a server", "rest", throughConnectedCall},
		{"run at a server", "proxy", throughConnectedRun},
		{"mcp", "mcp", func(t *testing.T, k *apptest.Kimbap) asker { return throughMCP(mcpProcess(t, k)) }},
		{"mcp over http", "mcp", func(t *testing.T, k *apptest.Kimbap) asker {
			token, _ := mcpToken(t, k.Open(t, ""), "local", "*")
			return throughMCP(mcpOver(t, mcpServer(t, k), token))
		}},
	}
}

// seen is what became of one request, without what may differ.
type seen struct {
	Told, Upstream  string
	Intent, Outcome string
}

// The same requests through every entrance have the same verdict, reach the
// upstream as the same bytes and stand in the trail alike, but for the surface.
func TestEveryEntranceIsTheSamePipeline(t *testing.T) {
	t.Parallel()
	var first []seen
	for _, e := range entrances() {
		t.Run(e.name, func(t *testing.T) {
			got := askAll(t, e)
			if first == nil {
				first = got
			}
			for i, q := range questions() {
				if got[i].Told != q.want {
					t.Errorf("%s %s: told %s, want %s", q.Action, q.Line, got[i].Told, q.want)
				}
				if got[i] != first[i] {
					t.Errorf("%s %s is not as through the first entrance:\n%+v\n%+v", q.Action, q.Line, got[i], first[i])
				}
			}
		})
	}
}

func askAll(t *testing.T, e entrance) []seen {
	dir, err := os.MkdirTemp("", "kimbap-*") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := apptest.New(t, apptest.Options{
		Services: []string{entranceNotes}, Policy: entrancePolicy, Scripts: apptest.Worker(t),
		Serve: app.ServeOptions{Sidecar: "unix:" + filepath.Join(dir, "s")},
	})
	k.Write(t, "socket", filepath.Join(dir, "s"))
	ask := e.open(t, k)
	var out []seen
	for _, q := range questions() {
		mark, before := k.Mark(t), len(k.Up.Requests())
		one := seen{Told: ask(t, q)}
		var records []apptest.Record
		apptest.Eventually(t, "the end of the request", func() bool {
			records = k.Requests(t, mark)
			return slices.ContainsFunc(records, func(r apptest.Record) bool { return r.Kind != "intent" })
		})
		for _, r := range records {
			if r.Surface != e.surface {
				t.Errorf("%s: surface %s", q.Line, r.Surface)
			}
			if r.Kind == "intent" {
				one.Intent += alike(t, r.Line)
			} else {
				one.Outcome += alike(t, r.Line)
			}
		}
		for _, r := range k.Up.Requests()[before:] {
			fields := strings.Split(strings.TrimSpace(string(r.Head)), "\r\n")
			slices.Sort(fields[1:])
			one.Upstream += strings.Join(fields, "\n") + "\n\n" + string(r.Body) + "\n"
		}
		out = append(out, one)
	}
	return out
}

// alike is a record without what names this one request and process, how its
// caller showed who it is, and how an entrance has the request: a built one is
// recorded by its arguments, a program's own by its path too.
func alike(t *testing.T, line string) string {
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"seq", "prev", "hash", "id", "time", "process", "intent", "approval", "duration_us", "address", "execution", "step",
		"surface", "principal", "agent", "run", "token", "body", "path", "query", "proto", "bytes_in", "bytes_out", "changes", "mutations",
	} {
		delete(fields, name)
	}
	args, _ := fields["args"].(map[string]any)
	for _, arg := range args {
		if keyed, is := arg.(map[string]any); is && keyed["hash"] != "" {
			keyed["hash"] = "with the home's own key"
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func throughCall(t *testing.T, k *apptest.Kimbap) asker {
	codes := map[int]string{0: "ok", 5: "forbidden", 6: "approval_pending"}
	return func(t *testing.T, q question) string {
		args, err := json.Marshal(q.Args)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(apptest.Worker(t), "--home", k.Dir, "call", q.Action, "--no-wait", "--input", "-")
		cmd.Stdin = bytes.NewReader(args)
		out, _ := cmd.CombinedOutput()
		if code, known := codes[cmd.ProcessState.ExitCode()]; known {
			return code
		}
		return toldIn(string(out))
	}
}

// toldIn finds an upstream's status in what a person or a script is told, else the code.
func toldIn(text string) string {
	for _, status := range []string{"429", "401"} {
		if strings.Contains(text, "notes answered "+status) {
			return status
		}
	}
	for _, code := range []string{"rate_limited", "forbidden", "approval_pending", "upstream"} {
		if strings.Contains(text, code) {
			return code
		}
	}
	return text
}

func throughProxy(t *testing.T, k *apptest.Kimbap) asker {
	client := k.Client(t, "")
	return func(t *testing.T, q question) string { return sent(client, q) }
}

// sent sends a request as a program does, with the fields that kimbap gives those
// it builds.
func sent(client *http.Client, q question) string {
	method, target, _ := strings.Cut(q.Line, " ")
	var body io.Reader
	if q.Body != "" {
		body = strings.NewReader(q.Body)
	}
	r, err := http.NewRequest(method, "https://"+apptest.Host+target, body)
	if err != nil {
		return err.Error()
	}
	r.Header.Set("User-Agent", "kimbap")
	if q.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	var problem apptest.Problem
	switch {
	case err != nil:
		return err.Error()
	case json.Unmarshal(text, &problem) == nil && problem.Code != "":
		return problem.Code
	case res.StatusCode >= 400:
		return fmt.Sprint(res.StatusCode)
	}
	return "ok"
}

// throughRun asks from a program that runs behind kimbap, see sender.
func throughRun(t *testing.T, k *apptest.Kimbap) asker {
	return asksFrom(t, os.Environ(), []string{"--home", k.Dir})
}

func asksFrom(t *testing.T, env, global []string) asker {
	cmd, said := start(t, "send")
	cmd.Args = append(append([]string{"kimbap"}, global...), "run", "--", "env", role+"=send", cmd.Path) // run takes our variables away
	cmd.Path, cmd.Env = apptest.Worker(t), env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	})
	answers := bufio.NewScanner(out)
	return func(t *testing.T, q question) string {
		if err := json.NewEncoder(in).Encode(q); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("no answer: %v %s", answers.Err(), said)
		}
		return answers.Text()
	}
}

// sender is that program: it asks what stdin says and prints what it is told.
func sender() error {
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true}, Timeout: time.Minute}
	questions := json.NewDecoder(os.Stdin)
	for {
		var q question
		if err := questions.Decode(&q); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		fmt.Println(sent(client, q))
	}
}

// scriptOf is a script that makes one request and returns what it is told.
func scriptOf(t *testing.T, q question) string {
	t.Helper()
	args, err := json.Marshal(q.Args)
	if err != nil {
		t.Fatal(err)
	}
	service, action, _ := strings.Cut(q.Action, ".")
	code := fmt.Sprintf(`try { await tools[%q][%q](%s); return "ok" } catch (e) { return e.code + ": " + e.message }`, service, action, args)
	return code
}

// scriptTold is what the result of such a script says.
func scriptTold(t *testing.T, result app.ScriptResult) string {
	t.Helper()
	var text string
	if result.Paused != nil {
		return "approval_pending"
	}
	if err := json.Unmarshal(result.Value, &text); err != nil {
		t.Fatalf("%v: %+v", err, result)
	}
	if text == "ok" {
		return text
	}
	return toldIn(text)
}

func throughExec(t *testing.T, k *apptest.Kimbap) asker {
	return func(t *testing.T, q question) string {
		cmd := exec.Command(apptest.Worker(t), "--home", k.Dir, "exec", "--json", "-e", scriptOf(t, q))
		var said bytes.Buffer
		cmd.Stderr = &said
		out, _ := cmd.Output()
		var result app.ScriptResult
		if err := json.Unmarshal(out, &result); err != nil {
			t.Fatalf("%v: %s%s", err, out, &said)
		}
		return scriptTold(t, result)
	}
}

func throughSidecar(t *testing.T, k *apptest.Kimbap) asker {
	socket, err := os.ReadFile(filepath.Join(k.Dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	client := socketClient(t, string(socket))
	return func(t *testing.T, q question) string {
		return scriptTold(t, execute(t, client, scriptOf(t, q)).ScriptResult)
	}
}

func throughMCP(session *sdk.ClientSession) asker {
	return func(t *testing.T, q question) string {
		switch got := use(t, session, "call", map[string]any{"action": q.Action, "args": q.Args}); {
		case got.Pending.ApprovalID != "":
			return "approval_pending"
		case got.Failed:
			return toldIn(got.Text)
		}
		return "ok"
	}
}
