//go:build unix

package home_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

// What is told of a home that somebody else can lead from is true, and what is advised
// works at the first time, without taking another user's files from them.
func TestWhatIsAdvisedOfAHomeThatOthersLead(t *testing.T) {
	const me, other = 4711, 4712
	for name, c := range map[string]struct {
		dir, config os.FileMode
		owner, file int  // of the folder, and of config.yaml
		link        bool // config.yaml is one, to outside
		says, hint  string
	}{
		"private":                            {dir: 0o700, config: 0o664, owner: me, file: me},
		"private, its file is another's":     {dir: 0o700, config: 0o644, owner: me, file: other},
		"readable":                           {dir: 0o755, config: 0o644, owner: me, file: me},
		"made under umask 002":               {dir: 0o775, config: 0o664, owner: me, file: me, says: "mode 0775", hint: "chmod 700 HOME"},
		"its file is the group's too":        {dir: 0o755, config: 0o664, owner: me, file: me, says: "config.yaml can be written", hint: "chmod 700 HOME"},
		"its file is another's":              {dir: 0o755, config: 0o644, owner: me, file: other, says: "config.yaml can be written", hint: "chmod 700 HOME"},
		"of another":                         {dir: 0o755, config: 0o644, owner: other, file: other, says: "belongs to another user (uid 4712)", hint: "run kimbap as that user, or choose another home: kimbap --home DIR"},
		"of another, and private":            {dir: 0o700, config: 0o600, owner: other, file: other, says: "belongs to another user (uid 4712)", hint: "run kimbap as that user, or choose another home: kimbap --home DIR"},
		"of root, as an image has it":        {dir: 0o755, config: 0o644},
		"of root, and everybody's":           {dir: 0o777, config: 0o644, says: "mode 0777", hint: "choose another home: kimbap --home DIR"},
		"private, and a link to everybody's": {dir: 0o700, config: 0o666, owner: me, file: me, link: true, says: "config.yaml can be written", hint: "chmod go-w HOME/config.yaml, and own it"},
		"private, and a link":                {dir: 0o700, config: 0o644, owner: me, file: me, link: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, asked := home.Folder{Dir: t.TempDir()}, me
			switch ours := c.owner == me && c.file == me; {
			case os.Geteuid() == 0:
			case ours:
				asked = os.Geteuid()
			case os.Getenv("CI") == "true":
				t.Fatal("only root can give a file away")
			default:
				t.Skip("LEFT OUT: only root can give a file away (sudo make test)")
			}
			at := f.Config()
			if c.link {
				at = filepath.Join(t.TempDir(), "elsewhere.yaml")
				check(t, os.Symlink(at, f.Config()))
			}
			check(t, os.WriteFile(at, nil, 0o600))
			if os.Geteuid() == 0 {
				check(t, os.Chown(at, c.file, -1))
				check(t, os.Chown(f.Dir, c.owner, -1))
			}
			check(t, os.Chmod(at, c.config))
			check(t, os.Chmod(f.Dir, c.dir))
			err := f.CheckLeads(asked)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e := runtime.AsError(err)
			if e == nil || e.Reason != runtime.ReasonOpenHome || !strings.Contains(e.Msg, c.says) || e.Hint != strings.ReplaceAll(c.hint, "HOME", f.Dir) {
				t.Fatalf("it says %v: %+v", err, e)
			}
			if strings.HasPrefix(c.hint, "chmod 700") {
				check(t, os.Chmod(f.Dir, 0o700))
				if err := f.CheckLeads(asked); err != nil {
					t.Errorf("after what was advised: %v", err)
				}
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
