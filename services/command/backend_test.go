//go:build unix

package command_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/command"
)

const canary = "kbcanary-7f3a9c/Zx+Q81w=="

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// mask knows the literal and base64; the real one is that of services/rest.
func mask(secret, _ string, text []byte) int {
	n := 0
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
		n += bytes.Count(text, []byte(form))
		copy(text, bytes.ReplaceAll(text, []byte(form), []byte(strings.Repeat("*", len(form)))))
	}
	return n
}

// rig is a backend whose PATH has one folder with one program, "tool".
type rig struct {
	*testing.T
	dir     string // where the program may leave marks
	bin     string
	backend *command.Backend
}

func newRig(t *testing.T, script string, edit ...func(*command.Options)) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir(), bin: t.TempDir()}
	r.program("tool", script)
	o := command.Options{Env: []string{"PATH=relative:" + r.bin + ":/usr/bin:/bin", "MARKS=" + r.dir, "AWS_SECRET=not for programs", "HOME=/root"}, Mask: mask}
	for _, e := range edit {
		e(&o)
	}
	var err error
	if r.backend, err = command.New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) program(name, script string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) call(edit ...func(*runtime.CommandSpec)) *runtime.Call {
	spec := &runtime.CommandSpec{Executable: "tool", Timeout: 20 * time.Second, SuccessCodes: []int{0}, Pass: []string{"MARKS"}, Env: map[string]string{"TOOL_TOKEN": "{credential}"}}
	for _, e := range edit {
		e(spec)
	}
	return &runtime.Call{
		Request:    &runtime.Request{},
		Action:     &runtime.Action{Ref: "tool.act", Service: "tool", Auth: &runtime.Auth{Type: runtime.AuthBearer, Ref: "tool"}, Command: spec},
		Credential: runtime.Credential{Name: "tool", Value: runtime.NewSecret(canary), Authorities: []string{"command:tool"}},
	}
}

func (r *rig) do(ctx context.Context, c *runtime.Call) (string, runtime.Result, *runtime.Error) {
	r.Helper()
	out := &runtimetest.Responder{}
	result, err := r.backend.Execute(ctx, c, out)
	if err == nil {
		return out.Answer().Body, result, nil
	}
	if out.Answer().Status != 0 {
		r.Error("an answer was started that has failed")
	}
	return "", result, runtime.AsError(err)
}

func (r *rig) must(c *runtime.Call) string {
	r.Helper()
	body, _, err := r.do(context.Background(), c)
	if err != nil {
		r.Fatal(err)
	}
	return body
}

// refused runs what may not run: nothing was started, nothing has leaked.
func (r *rig) refused(c *runtime.Call, code runtime.Code) *runtime.Error {
	r.Helper()
	_, result, err := r.do(context.Background(), c)
	if err == nil || err.Code != code || !errors.Is(err, runtime.ErrNotSent) || !result.Unsent {
		r.Fatalf("got %v, want %s before the start", err, code)
	}
	if marks, _ := os.ReadDir(r.dir); len(marks) > 0 {
		r.Error("the program ran")
	}
	return err
}

// Windows knows no case of the names of variables, and kimbap's own are in capitals there.
func TestAVariableIsPassedOnInAnyCaseOnWindows(t *testing.T) {
	for system, want := range map[string]string{"windows": "C:", "linux": ""} {
		r := newRig(t, `printf %s "$ProgramFiles"`, func(o *command.Options) {
			o.Env, o.System = append(o.Env, "PROGRAMFILES=C:"), system
		})
		c := r.call(func(s *runtime.CommandSpec) { s.Pass = append(s.Pass, "ProgramFiles") })
		if got := r.must(c); got != want {
			t.Errorf("%s: %q", system, got)
		}
		p, err := r.backend.Preview(c.Action, nil)
		if err != nil || slices.Contains(p.Env, "ProgramFiles=…") != (want != "") {
			t.Errorf("%s shows %v, %v", system, p, err)
		}
	}
}

// A program sees what its service gives it, and works in an empty folder that is
// gone afterwards.
func TestAProgramHasAMinimalEnvironment(t *testing.T) {
	r := newRig(t, `env | grep -v '^_=\|^PWD=\|^SHLVL=\|^OLDPWD=' | sort; echo "in $(pwd) with $(ls -A | wc -l) files"; cat; [ -t 0 ] || echo no terminal; pwd > $MARKS/folder`)
	body := r.must(r.call())
	folder, _ := os.ReadFile(filepath.Join(r.dir, "folder"))
	where := strings.TrimSpace(string(folder))
	want := []string{"HOME=" + where, "LANG=C.UTF-8", "MARKS=" + r.dir, "NO_COLOR=1", "PATH=" + r.bin + ":/usr/bin:/bin",
		"TERM=dumb", "TMPDIR=" + where, "TOOL_TOKEN=" + strings.Repeat("*", len(canary)), "in " + where + " with 0 files", "no terminal", ""}
	if got := strings.Split(body, "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if _, err := os.Stat(where); !os.IsNotExist(err) {
		t.Errorf("the folder %q is still there: %v", where, err)
	}
}

// The credential is a variable and never a word, and what shows it is blanked out.
func TestTheCredentialIsInTheEnvironmentAlone(t *testing.T) {
	r := newRig(t, `cat /proc/$$/cmdline | tr '\0' ' ' > $MARKS/words; printf %s "$TOOL_TOKEN" > $MARKS/got; echo "token $TOOL_TOKEN"; printf %s "$TOOL_TOKEN" | base64; echo "oops $TOOL_TOKEN" >&2; exit $CODE`)
	c := r.call(func(s *runtime.CommandSpec) {
		s.Fixed, s.Env["CODE"] = []string{"sub"}, "0"
	})
	body, result, err := r.do(context.Background(), c)
	if err != nil || strings.Contains(body, canary) || !strings.Contains(body, "token ****") || result.Scrubbed != 3 || result.Used != runtime.CredentialStored {
		t.Errorf("%q %+v %v", body, result, err)
	}
	words, _ := os.ReadFile(filepath.Join(r.dir, "words"))
	got, _ := os.ReadFile(filepath.Join(r.dir, "got"))
	if strings.Contains(string(words), canary) || !strings.Contains(string(words), "sub") || string(got) != canary {
		t.Errorf("words %q, token %q", words, got)
	}
	c.Action.Command.Env["CODE"] = "3"
	_, _, err = r.do(context.Background(), c)
	if err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "oops ***") {
		t.Errorf("%v", err)
	}
}

func TestACredentialIsForTheProgramsItWasStoredFor(t *testing.T) {
	r := newRig(t, `touch $MARKS/ran`)
	for _, of := range [][]string{{"api.github.com:443"}, {"command:other"}, nil} {
		c := r.call()
		c.Credential.Authorities = of
		if e := r.refused(c, runtime.CodeNoCredential); e.Hint != "kimbap link tool --rebind" {
			t.Errorf("%+v", e)
		}
	}
	c := r.call()
	c.Credential = runtime.Credential{}
	r.refused(c, runtime.CodeNoCredential)
	c.Principal = &runtime.Principal{Tenant: "acme"}
	c.Credential.Expired = true
	if e := r.refused(c, runtime.CodeNoCredential); e.Msg != "the credential of tool has expired" || e.Hint != "kimbap --tenant acme link tool" {
		t.Errorf("%+v", e)
	}
	c.Action.Command.Env = nil // it wants none
	r.must(c)
}

func TestExitCodesAreMapped(t *testing.T) {
	r := newRig(t, `echo "what the tool said" >&2; echo '{"n": 1}'; exit $1`)
	run := func(code string, edit ...func(*runtime.CommandSpec)) (string, *runtime.Error) {
		c := r.call(append(edit, func(s *runtime.CommandSpec) { s.Fixed = []string{code} })...)
		c.Args = runtime.Args{"repo": "a/b"}
		body, _, err := r.do(context.Background(), c)
		return body, err
	}
	if body, err := run("0"); err != nil || body != "{\"n\": 1}\n" {
		t.Errorf("%q %v", body, err)
	}
	if _, err := run("7"); err == nil || err.Code != runtime.CodeUpstream || err.Msg != "tool.act ended with exit code 7" || !strings.Contains(err.Error(), "what the tool said") || !runtime.MayHaveHappened(err) {
		t.Errorf("%v", err)
	}
	mapped := func(s *runtime.CommandSpec) {
		s.Errors = map[int]runtime.ErrorMapping{4: {Code: "not_found", Message: "no repository {repo}"}, 5: {Code: "rate_limited", Message: "slowly"}}
	}
	if _, err := run("4", mapped); err == nil || err.Msg != "no repository a/b" || !strings.Contains(err.Error(), "not_found") {
		t.Errorf("%v", err)
	}
	if _, err := run("4", mapped); err == nil || err.Plain != "no repository {repo}" {
		t.Errorf("recorded as %q", err.Plain)
	}
	if _, err := run("5", mapped); err == nil || err.Code != runtime.CodeRateLimited {
		t.Errorf("%v", err)
	}
	if body, err := run("2", func(s *runtime.CommandSpec) { s.SuccessCodes, s.MergeStderr = []int{0, 2}, true }); err != nil || !strings.Contains(body, "what the tool said") {
		t.Errorf("%q %v", body, err)
	}
	if _, err := run("$$"); err == nil {
		t.Error("a shell has read a word")
	}
}

// alive reports whether the process of a mark is still there.
func (r *rig) alive(mark string) bool {
	text, err := os.ReadFile(filepath.Join(r.dir, mark))
	if err != nil {
		r.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		r.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err != nil || strings.Contains(string(stat), ") Z ") {
			return false
		}
	}
	return syscall.Kill(pid, 0) == nil
}

const spawns = `sleep 600 & echo $! > $MARKS/child; (trap '' TERM; exec sleep 600) & echo $! > $MARKS/stubborn`

func TestATimeoutKillsTheWholeGroup(t *testing.T) {
	r := newRig(t, spawns+`; wait`)
	_, _, err := r.do(context.Background(), r.call(func(s *runtime.CommandSpec) { s.Timeout = 2500 * time.Millisecond }))
	if err == nil || err.Code != runtime.CodeTimeout || !runtime.MayHaveHappened(err) {
		t.Errorf("%v", err)
	}
	if r.alive("child") || r.alive("stubborn") {
		t.Error("what the program started outlived it")
	}
}

func TestWhatAProgramLeavesBehindEndsWithIt(t *testing.T) {
	r := newRig(t, spawns+`; echo done`)
	if body := r.must(r.call()); body != "done\n" {
		t.Errorf("%q", body)
	}
	if r.alive("child") || r.alive("stubborn") {
		t.Error("a program with the credential in its environment runs on")
	}
}

func TestACallerThatLeavesEndsTheProgram(t *testing.T) {
	r := newRig(t, spawns+`; touch $MARKS/began; wait`)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(r.dir, "began")); err == nil {
				cancel()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if _, _, err := r.do(ctx, r.call()); err == nil || err.Code != runtime.CodeCanceled {
		t.Errorf("%v", err)
	}
	if r.alive("child") {
		t.Error("the program outlived its caller")
	}
}

func TestOutputIsBounded(t *testing.T) {
	for name, script := range map[string]string{"stdout": "yes", "merged": "yes >&2"} {
		r := newRig(t, `echo $$ > $MARKS/self; exec `+script)
		_, result, err := r.do(context.Background(), r.call(func(s *runtime.CommandSpec) { s.MergeStderr = name == "merged" }))
		if err == nil || err.Reason != runtime.ReasonBodyTooLarge || result.BytesIn > 16<<20 {
			t.Errorf("%s: %v, %d bytes", name, err, result.BytesIn)
		}
		if r.alive("self") {
			t.Errorf("%s: the program writes on", name)
		}
	}
	r := newRig(t, `head -c 40000000 /dev/zero >&2; echo the end >&2; exit 1`)
	if _, _, err := r.do(context.Background(), r.call()); err == nil || len(err.Error()) > 64<<10 || !strings.Contains(err.Error(), "the end") {
		t.Errorf("%.100v", err)
	}
}

func TestProgramsThatOthersCanChangeDoNotRun(t *testing.T) {
	r := newRig(t, `touch $MARKS/ran`)
	tool := filepath.Join(r.bin, "tool")
	for name, change := range map[string]func(){
		"file":   func() { _ = os.Chmod(tool, 0o777) },
		"folder": func() { _ = os.Chmod(tool, 0o755); _ = os.Chmod(r.bin, 0o777) },
	} {
		change()
		if e := r.refused(r.call(), runtime.CodeForbidden); !strings.Contains(e.Msg, "can be changed by everybody") {
			t.Errorf("%s: %v", name, e)
		}
		_ = os.Chmod(r.bin, 0o755)
		_ = os.Chmod(tool, 0o755)
	}
	if e := r.refused(r.call(func(s *runtime.CommandSpec) { s.Executable = "nowhere" }), runtime.CodeInvalidInput); e.Reason != runtime.ReasonNotFound {
		t.Errorf("%v", e)
	}
}

// PATH entries that are not absolute would make the folder of the call decide
// which program gets the credential.
func TestTheFolderOfTheCallIsNotSearched(t *testing.T) {
	r := newRig(t, `echo the right one`)
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("relative", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("relative/tool", []byte("#!/bin/sh\necho a wrong one\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if body := r.must(r.call()); body != "the right one\n" {
		t.Errorf("%q", body)
	}
}

func TestWorkingFolders(t *testing.T) {
	r := newRig(t, `pwd`)
	there := t.TempDir()
	if body := r.must(r.call(func(s *runtime.CommandSpec) { s.WorkingDir = there })); body != there+"\n" {
		t.Errorf("%q", body)
	}
	r.refused(r.call(func(s *runtime.CommandSpec) { s.WorkingDir = there + "/none" }), runtime.CodeInvalidInput)
	r.refused(r.call(func(s *runtime.CommandSpec) { s.WorkingDir = "." }), runtime.CodeInvalidInput)
	r = newRig(t, `pwd`, func(o *command.Options) { o.Dir = there })
	if body := r.must(r.call(func(s *runtime.CommandSpec) { s.WorkingDir = "." })); body != there+"\n" {
		t.Errorf("%q", body)
	}
}

// A script gets its arguments as JSON on stdin; no word of it comes from them.
func TestScriptsGetTheirArgumentsOnStdin(t *testing.T) {
	r := newRig(t, `printf '%s\n' "$@" > $MARKS/words; cat`)
	r.program("osascript", `printf '%s\n' "$@" > `+r.dir+`/words; cat`)
	evil := "\"); ObjC.import('x'); -e `id`\n\x00"
	for language, want := range map[string]string{"jxa": `Application("Notes")`, "applescript": "NSJSONSerialization"} {
		c := r.call(func(s *runtime.CommandSpec) {
			s.Executable, s.Env = "", nil
			s.Script = &runtime.Script{Language: language, Source: "the source", App: "Notes"}
		})
		c.Action.Params, c.Args = []runtime.Param{{Name: "text", Type: runtime.TypeString}}, runtime.Args{"text": evil}
		r.refused(c, runtime.CodeInvalidInput)
		mac := newRig(t, ``, func(o *command.Options) { o.System, o.Script = "darwin", filepath.Join(r.bin, "osascript") })
		body := mac.must(c)
		var got map[string]string
		if json.Unmarshal([]byte(body), &got) != nil || got["text"] != evil {
			t.Errorf("%s: stdin %q", language, body)
		}
		words, _ := os.ReadFile(filepath.Join(r.dir, "words"))
		if !strings.Contains(string(words), want) || !strings.Contains(string(words), "the source") || strings.Contains(string(words), "`id`") {
			t.Errorf("%s: words %s", language, words)
		}
		if err := os.Remove(filepath.Join(r.dir, "words")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPreviewStartsNothing(t *testing.T) {
	r := newRig(t, `touch $MARKS/ran`)
	c := r.call(func(s *runtime.CommandSpec) {
		s.Fixed, s.Styles = []string{"pr"}, map[string]runtime.Style{"q": runtime.StylePositional}
	})
	c.Action.Params = []runtime.Param{{Name: "q"}}
	p, err := r.backend.Preview(c.Action, runtime.Args{"q": "it's; rm -rf /"})
	if err != nil || p.String() != "'TOOL_TOKEN=[secret]' MARKS=… "+filepath.Join(r.bin, "tool")+` pr 'it'\''s; rm -rf /'` && !strings.Contains(p.String(), `'it'\''s; rm -rf /'`) {
		t.Errorf("%v %v", p, err)
	}
	if marks, _ := os.ReadDir(r.dir); len(marks) > 0 {
		t.Error("it ran")
	}
}
