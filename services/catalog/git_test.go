package catalog_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/command"
)

// What a folder's configuration names is not run by reading at low risk: the folder is
// the caller's, and the program is not confined as the caller may be.
func TestReadingWithGitRunsNothing(t *testing.T) {
	dir := t.TempDir()
	ran, trap := filepath.Join(dir, "ran"), filepath.Join(dir, "trap")
	if err := os.WriteFile(trap, []byte("#!/bin/sh\necho \"$@\" >> '"+ran+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	git := func(stdin string, args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "user.name=o", "-c", "user.email=o@example.com"}, args...)...)
		c.Stdin = strings.NewReader(stdin)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "--quiet", "--initial-branch=main")
	if err := os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("* diff=trap filter=trap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("", "add", ".gitattributes")
	git("", "commit", "--quiet", "-m", "Open the door")
	signed := strings.Replace(git("", "cat-file", "commit", "HEAD"), "\n\n",
		"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1)
	git("", "reset", "--quiet", git(signed+"\n", "hash-object", "-t", "commit", "-w", "--stdin"))
	for name, v := range map[string]string{
		"core.fsmonitor": trap, "gpg.program": trap, "log.showSignature": "true", "diff.external": trap,
		"diff.trap.textconv": trap, "diff.trap.command": trap, "core.pager": trap,
		"filter.trap.clean": trap + "; cat", "core.hooksPath": dir,
	} {
		git("", "config", name, v)
	}
	if err := os.Link(trap, filepath.Join(dir, "post-index-change")); err != nil {
		t.Fatal(err)
	}
	b, err := command.New(command.Options{
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Dir: dir,
		Mask: func(string, string, []byte) int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	set := load(t)
	read := func(ref string, args runtime.Args) error {
		t.Helper()
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(filepath.Join(dir, ".gitattributes"), later, later); err != nil {
			t.Fatal(err)
		}
		action, _ := set.Action(ref)
		call := &runtime.Call{Request: &runtime.Request{Action: action.Ref}, Action: action, Args: args}
		_, err := b.Execute(context.Background(), call, &answer{})
		if line, missing := os.ReadFile(ran); missing == nil {
			if action.Risk == runtime.RiskLow {
				t.Errorf("%s ran what the folder says: %q", ref, line)
			}
			_ = os.Remove(ran)
		}
		return err
	}
	for ref, args := range map[string]runtime.Args{
		"git.status": nil, "git.log": nil, "git.diff": nil, "git.show": nil, "git.list-branches": nil, "git.list-tags": nil,
		"git.list-files": nil, "git.list-remotes": nil, "git.blame": {"path": ".gitattributes"},
	} {
		if err := read(ref, args); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	// What a partial clone lacks is fetched when it is read, as its configuration says.
	for _, setting := range []string{
		"core.repositoryFormatVersion 1", "extensions.partialClone there", "remote.there.promisor true", "remote.there.url " + dir,
		"remote.there.uploadpack " + trap, "remote.there.fetch +refs/heads/*:refs/remotes/there/*", "protocol.allow always", "protocol.file.allow always",
	} {
		name, v, _ := strings.Cut(setting, " ")
		git("", "config", name, v)
	}
	git("", "tag", "v1")
	for _, of := range []string{"HEAD^{tree}", "HEAD"} {
		id := git("", "rev-parse", of)
		if err := os.Remove(filepath.Join(dir, ".git", "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
		for ref, args := range map[string]runtime.Args{
			"git.log": nil, "git.show": nil, "git.list-branches": nil, "git.list-tags": {"sort": "committerdate"},
			"git.list-files": nil, "git.list-remotes": nil, "git.fetch": {"remote": "there"},
		} {
			_ = read(ref, args) // which may fail: it is not there
		}
	}
}

// What the folder's configuration says of a push does not overwrite anything at medium risk:
// what is judged is what is pushed.
func TestAPushOverwritesNothingByItself(t *testing.T) {
	for _, setting := range []string{"", "remote.origin.push +refs/heads/main:refs/heads/other", "remote.origin.push +refs/heads/*:refs/heads/*", "remote.origin.mirror true"} {
		dir := t.TempDir()
		git := func(in string, args ...string) string {
			t.Helper()
			c := exec.Command("git", append([]string{"-C", filepath.Join(dir, in), "-c", "user.name=o", "-c", "user.email=o@example.com"}, args...)...)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		git("", "init", "--quiet", "--bare", "there")
		git("", "init", "--quiet", "--initial-branch=main", "here")
		git("here", "remote", "add", "origin", "../there")
		git("here", "commit", "--quiet", "--allow-empty", "-m", "Open the door")
		git("here", "branch", "--track", "other")
		git("here", "push", "--quiet", "origin", "main", git("here", "commit-tree", "-m", "of somebody else", "-p", "HEAD", "HEAD^{tree}")+":refs/heads/other")
		git("here", "commit", "--quiet", "--allow-empty", "-m", "Close it")
		if name, v, some := strings.Cut(setting, " "); some {
			git("here", "config", name, v)
		}
		theirs := git("there", "rev-parse", "other")
		b, err := command.New(command.Options{
			Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Dir: filepath.Join(dir, "here"),
			Mask: func(string, string, []byte) int { return 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		set := load(t)
		for _, args := range []runtime.Args{
			{}, {"remote": "origin"}, {"remote": "origin", "ref": "main"}, {"remote": "origin", "ref": "refs/heads/main"},
			{"remote": "origin", "ref": "HEAD"}, {"remote": "origin", "ref": "HEAD:main"}, {"remote": "origin", "ref": "main:main", "set_upstream": true},
		} {
			found, err := set.Resolve(&runtime.Request{Action: "git.push", Args: args})
			action, resolved := found.Action, found.Args
			if err != nil {
				continue // it is asked for by another action
			}
			_, err = b.Execute(context.Background(), &runtime.Call{Request: &runtime.Request{Action: action.Ref}, Action: action, Args: resolved}, &answer{})
			if setting == "" && err != nil {
				t.Errorf("%v: %v", args, err)
			}
			if got := git("there", "rev-parse", "other"); got != theirs {
				t.Errorf("with %q, %v overwrites what somebody else has pushed", setting, args)
				git("there", "update-ref", "refs/heads/other", theirs)
			}
		}
		if setting == "" && git("there", "rev-parse", "main") != git("here", "rev-parse", "main") {
			t.Error("nothing was pushed")
		}
	}
}
