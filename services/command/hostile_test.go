//go:build unix

package command_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/command"
)

// What is kept of stderr is its end. Where the cut goes through the credential,
// its rest is not shown: by a byte more or less an agent could choose the place.
func TestAStderrThatIsCutShowsNoPartOfTheCredential(t *testing.T) {
	r := newRig(t, `x() { head -c $1 /dev/zero | tr '\0' x >&2; }; x 12000; printf %s "$TOOL_TOKEN" >&2; x $AFTER; exit 1`)
	for _, after := range []string{"8170", "8175", "8180", "8185", "8190", "40000"} {
		_, _, err := r.do(context.Background(), r.call(func(s *runtime.CommandSpec) { s.Env["AFTER"] = after }))
		if err == nil || err.Err == nil {
			t.Fatalf("%s: %v", after, err)
		}
		said := err.Err.Error()
		for n := 4; n <= len(canary); n++ {
			if part := canary[len(canary)-n:]; strings.HasPrefix(said, part) {
				t.Errorf("%s: shows %q", after, part)
			}
		}
		if !strings.HasSuffix(said, "xxxx") {
			t.Errorf("%s: the end is lost: %.40q", after, said)
		}
	}
}

// The folders of PATH that depend on where a call is made are not searched by the
// program either: it has the credential, and may work in a cloned repository.
func TestAProgramSearchesNoFolderOfTheCall(t *testing.T) {
	r := newRig(t, `cd $MARKS && helper; echo "$PATH"`, func(o *command.Options) {
		o.Env[0] = "PATH=:." + strings.TrimPrefix(o.Env[0], "PATH=relative") + ":"
	})
	if err := os.WriteFile(filepath.Join(r.dir, "helper"), []byte("#!/bin/sh\necho a wrong one\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	body := r.must(r.call())
	if strings.Contains(body, "a wrong one") || body != r.bin+":/usr/bin:/bin\n" {
		t.Errorf("%q", body)
	}
}

// A link in a good folder leads to a program that everybody can replace.
func TestALinkedProgramIsJudgedWhereItLies(t *testing.T) {
	r := newRig(t, `echo never`)
	open := filepath.Join(t.TempDir(), "open")
	for _, err := range []error{
		os.Mkdir(open, 0o777), os.Chmod(open, 0o777),
		os.Rename(filepath.Join(r.bin, "tool"), filepath.Join(open, "tool")), os.Symlink(filepath.Join(open, "tool"), filepath.Join(r.bin, "tool")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.refused(r.call(), runtime.CodeForbidden)
}

// Everybody can replace a program too where a folder above its own, or that of a link
// between, is open: in a sticky one they cannot.
func TestAProgramIsJudgedByEveryFolderOnItsWay(t *testing.T) {
	r := newRig(t, `echo ran`)
	link := func(from, to string) string {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
		return from
	}
	folder := func(parent, name string, mode os.FileMode) string {
		dir := filepath.Join(parent, name)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	tool := filepath.Join(r.bin, "tool")
	text, err := os.ReadFile(tool)
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	open, sticky := folder(at, "open", 0o777), folder(at, "sticky", 0o777|os.ModeSticky)
	for _, dir := range []string{folder(open, "bin", 0o755), folder(sticky, "bin", 0o755)} {
		if err := os.WriteFile(filepath.Join(dir, "tool"), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, refused := range map[string]bool{
		filepath.Join(open, "bin", "tool"):                                                    true,
		filepath.Join(sticky, "bin", "tool"):                                                  false,
		link(filepath.Join(at, "through"), link(filepath.Join(open, "between"), tool)):        true,
		filepath.Join(link(filepath.Join(at, "dir"), "open/bin"), "tool"):                     true,
		link(filepath.Join(at, "up"), "sticky/../sticky/bin/tool"):                            false,
		link(filepath.Join(at, "aside"), filepath.Join(sticky, "bin")+"/../../open/bin/tool"): true,
	} {
		call := r.call(func(s *runtime.CommandSpec) { s.Executable = path })
		if refused {
			r.refused(call, runtime.CodeForbidden)
		} else if body := r.must(call); body != "ran\n" {
			t.Errorf("%s: %q", path, body)
		}
	}
}

// A user name that its service says is no secret stays in what a program writes.
func TestAUserThatIsNoSecretStays(t *testing.T) {
	var masked []string
	r := newRig(t, `echo "account $TOOL_USER"`, func(o *command.Options) {
		o.Mask = func(secret, user string, text []byte) int {
			masked = append(masked, user)
			return mask(secret, user, text)
		}
	})
	call := r.call(func(s *runtime.CommandSpec) { s.Env["TOOL_USER"] = "{username}" })
	call.Credential.Username = runtime.NewSecret("AC0123456789abcdef")
	for _, open := range []bool{false, true} {
		call.Action.Auth = &runtime.Auth{Type: runtime.AuthBasic, Ref: "tool", UsernameRef: "u", UsernameOpen: open}
		masked = nil
		r.must(call)
		if len(masked) == 0 || (masked[0] == "") != open {
			t.Errorf("open %v: looked for %q", open, masked)
		}
	}
}

// What an argument brings into a message is not filled again.
func TestMessagesAreFilledOnce(t *testing.T) {
	r := newRig(t, `exit 4`)
	call := r.call(func(s *runtime.CommandSpec) {
		s.Errors = map[int]runtime.ErrorMapping{4: {Message: "no {a} in {b}, {c}"}}
	})
	call.Args = runtime.Args{"a": "{b}", "b": "{a}", "other": 1}
	for range 20 { // in whatever order
		if _, _, err := r.do(t.Context(), call); err == nil || err.Msg != "no {b} in {a}, {c}" {
			t.Fatalf("%v", err)
		}
	}
}
