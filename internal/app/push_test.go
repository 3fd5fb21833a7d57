package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const gitService = `name: notes-git
version: 1.0.0
description: Git, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  push: {description: Push, method: POST, path: "/{repo}/git-receive-pack", risk: {level: medium}, args: [{name: pack}], request: {body: "{pack}", body_type: raw}}
`

const onlyBranches = `version: 1
rules:
  - name: main-is-for-people
    match: {action: notes-git.push}
    when: args.refs.exists(r, r.name == "refs/heads/main" || r.kind == "delete")
    then: deny
    reason: agents push branches
`

const (
	oldID  = "1111111111111111111111111111111111111111"
	newID  = "2222222222222222222222222222222222222222"
	noneID = "0000000000000000000000000000000000000000"
)

func pushOf(commands ...string) string {
	var out strings.Builder
	for i, c := range commands {
		if i == 0 {
			c += "\x00 report-status agent=git/2"
		}
		fmt.Fprintf(&out, "%04x%s", len(c)+4, c)
	}
	return out.String() + "0000"
}

// An agent never pushes to main and never deletes a branch, however the push is
// written; everything else goes out as it came.
func TestARuleAboutWhatIsPushed(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"relay", "std"} {
		k := apptest.New(t, apptest.Options{Services: []string{gitService}, Policy: onlyBranches, Engine: engine})
		for _, c := range []struct {
			name, body, reason string
			status             int
		}{
			{"branch", pushOf(oldID+" "+newID+" refs/heads/topic") + "PACK\x00\x01", "", 200},
			{"new branch", pushOf(noneID+" "+newID+" refs/heads/main2") + "PACK", "", 200},
			{"probe", "0000", "", 200},
			{"main", pushOf(oldID+" "+newID+" refs/heads/main") + "PACK", "", 403},
			{"main as the second", pushOf(oldID+" "+newID+" refs/heads/topic", oldID+" "+newID+" refs/heads/main") + "PACK", "", 403},
			{"delete", pushOf(oldID + " " + noneID + " refs/heads/topic"), "", 403},
			{"main behind NUL", pushOf(oldID+" "+newID+" refs/heads/topic", oldID+" "+newID+" refs/heads/topic\x00"+oldID+" "+newID+" refs/heads/main"), "condition_failed", 403},
			{"options", "0092" + oldID + " " + newID + " refs/heads/topic\x00report-status push-options agent=git/2.43.0" + "0000", "condition_failed", 403},
			{"not a push", "refs/heads/main", "condition_failed", 403},
			{"no end", strings.TrimSuffix(pushOf(oldID+" "+newID+" refs/heads/topic"), "0000"), "condition_failed", 403},
		} {
			before := len(k.Up.Requests())
			a := k.Do(t, "POST https://"+apptest.Host+"/r/git-receive-pack", c.body)
			sent := k.Up.Requests()[before:]
			if a.Status != c.status || string(a.Problem.Reason) != c.reason || (len(sent) == 1) != (c.status == 200) {
				t.Errorf("%s, %s: %d %+v, %d sent", engine, c.name, a.Status, a.Problem, len(sent))
			}
			if len(sent) == 1 && string(sent[0].Body) != c.body {
				t.Errorf("%s, %s: the upstream got %q", engine, c.name, sent[0].Body)
			}
		}
	}
}

// A rule that asks first whether there are references is not turned off by a push
// whose head cannot be read; a clone has none and passes.
func TestAPushThatCannotBeReadIsNotOneWithoutReferences(t *testing.T) {
	t.Parallel()
	fetching := gitService + `  fetch: {description: Fetch, method: POST, path: "/{repo}/git-upload-pack", risk: {level: low}, args: [{name: pack}], request: {body: "{pack}", body_type: raw}}
`
	command := oldID + " " + newID + " refs/heads/main"
	options := fmt.Sprintf("%04x%s\x00 report-status push-options0000", len(command)+28+4, command)
	many := strings.Split(strings.Repeat(oldID+" "+newID+" refs/heads/topic,", 3000), ",")[:3000]
	toMain, toTopic := pushOf(oldID+" "+newID+" refs/heads/main"), pushOf(oldID+" "+newID+" refs/heads/topic")
	for _, when := range []string{
		`has(args.refs) && args.refs.exists(r, r.name == "refs/heads/main")`,
		`args.?refs.orValue([]).exists(r, r.name == "refs/heads/main")`,
	} {
		k := apptest.New(t, apptest.Options{Services: []string{fetching}, Policy: `version: 1
rules:
  - name: main-is-for-people
    match: {service: notes-git}
    when: '` + when + `'
    then: deny
`})
		for _, c := range []struct {
			name, path, body, coding, reason string
			status                           int
		}{
			{"topic", "git-receive-pack", toTopic + "PACK", "", "", 200},
			{"probe", "git-receive-pack", "0000", "", "", 200},
			{"clone", "git-upload-pack", "0000", "", "", 200},
			{"compressed clone", "git-upload-pack", "\x1f\x8b", "gzip", "", 200},
			{"main", "git-receive-pack", toMain + "PACK", "", "", 403},
			{"compressed", "git-receive-pack", "\x1f\x8b", "gzip", "condition_failed", 403},
			{"options", "git-receive-pack", options, "", "condition_failed", 403},
			{"over 256 KiB", "git-receive-pack", pushOf(many...), "", "condition_failed", 403},
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+apptest.Host+"/r/"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
			if c.coding != "" {
				r.Header.Set("Content-Encoding", c.coding)
			}
			res, err := k.Client(t, "").Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != c.status || !strings.Contains(string(text), c.reason) {
				t.Errorf("%s, %s: %d %s", when, c.name, res.StatusCode, text)
			}
		}
		built := &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "notes-git.push", Unattended: true,
			Args: runtime.Args{"repo": "r", "pack": options},
		}
		if code := runtime.CodeOf(k.App.Pipeline().Do(t.Context(), built, &app.Answer{})); code != runtime.CodeForbidden {
			t.Errorf("%s, built: %q", when, code)
		}
	}
}

// A push of 100 MiB streams: the upstream has its first bytes long before its
// last, and it never stands in memory.
func TestALargePushStreams(t *testing.T) {
	const size = 100 << 20
	began := make(chan struct{})
	got := make(chan int64, 1)
	k := apptest.New(t, apptest.Options{Services: []string{gitService}, Policy: onlyBranches, Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/r/git-receive-pack": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			close(began)
			n, _ := io.Copy(io.Discard, httputil.NewChunkedReader(c))
			got <- n
			return c.Send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") && false
		},
	}}})
	var before, after goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	head := pushOf(oldID + " " + newID + " refs/heads/topic")
	pipe, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, head+strings.Repeat("P", 64<<10))
		select {
		case <-began:
		case <-time.After(20 * time.Second):
			t.Error("the upstream has seen nothing of a push that goes on")
		}
		chunk := make([]byte, 1<<20)
		for range size >> 20 {
			_, _ = w.Write(chunk)
		}
		_ = w.Close()
	}()
	client := k.Client(t, "")
	client.Timeout = 2 * time.Minute
	res, err := client.Post("https://"+apptest.Host+"/r/git-receive-pack", "application/x-git-receive-pack-request", pipe)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	goruntime.GC()
	goruntime.ReadMemStats(&after)
	if n := <-got; res.StatusCode != http.StatusOK || n != int64(len(head)+64<<10+size) {
		t.Errorf("%d, %d bytes", res.StatusCode, n)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > size/2 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
}

// A push that is built cannot say another thing of itself than it is.
func TestABuiltPushIsJudgedByWhatItHolds(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{gitService}, Policy: onlyBranches})
	do := func(args runtime.Args) runtime.Code {
		req := &runtime.Request{Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "notes-git.push", Args: args, Unattended: true}
		return runtime.CodeOf(k.App.Pipeline().Do(t.Context(), req, &app.Answer{}))
	}
	toMain, toTopic := pushOf(oldID+" "+newID+" refs/heads/main"), pushOf(oldID+" "+newID+" refs/heads/topic")
	if code := do(runtime.Args{"repo": "r", "pack": toMain}); code != runtime.CodeForbidden {
		t.Errorf("main: %q", code)
	}
	if code := do(runtime.Args{"repo": "r", "pack": toMain, "refs": []any{}}); code != runtime.CodeInvalidInput {
		t.Errorf("refs: %q", code)
	}
	if code := do(runtime.Args{"repo": "r", "pack": toTopic}); code != "" {
		t.Errorf("topic: %q", code)
	}
}

// A push that a person said yes to is made, by whoever waits for the answer.
func TestAnApprovedPushIsMade(t *testing.T) {
	t.Parallel()
	const asks = `version: 1
rules:
  - name: main-is-asked-about
    match: {action: notes-git.push}
    when: args.refs.exists(r, r.name == "refs/heads/main")
    then: require_approval
`
	k := apptest.New(t, apptest.Options{Services: []string{gitService}, Policy: asks})
	person := k.Open(t, "")
	pack := pushOf(oldID + " " + newID + " refs/heads/main")
	for name, ask := range map[string]func() string{
		"sent": func() string {
			return k.Do(t, "POST https://"+apptest.Host+"/r/git-receive-pack", pack).Problem.Approval
		},
		"built": func() string {
			req := &runtime.Request{Surface: runtime.SurfaceCall, Caller: person.Local(), Action: "notes-git.push", Args: runtime.Args{"repo": "r", "pack": pack}}
			return runtime.AsError(person.Pipeline().Do(t.Context(), req, &app.Answer{})).ApprovalID
		},
	} {
		id, before := ask(), len(k.Up.Requests())
		if id == "" {
			t.Errorf("%s: nobody was asked", name)
			continue
		}
		if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		answer := &app.Answer{}
		if _, _, err := person.WaitApproval(t.Context(), id, answer, nil); err != nil || answer.Status != http.StatusOK {
			t.Errorf("%s: %d %+v", name, answer.Status, err)
		}
		if len(k.Up.Requests()) != before+1 || string(k.Up.Last(t).Body) != pack {
			t.Errorf("%s: was not made", name)
		}
	}
}
