package tenants_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/tenants"
	"github.com/kimbap-run/kimbap/runtime"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 123456789, time.UTC)

func folders(t *testing.T) tenants.Folders {
	t.Helper()
	return tenants.Folders{Home: home.Folder{Dir: t.TempDir()}}
}

// made is a home with tenant acme.
func made(t *testing.T) tenants.Folders {
	t.Helper()
	f := folders(t)
	if err := f.Make("acme", false, now); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNamesAreFoldersEverywhere(t *testing.T) {
	for _, name := range []string{"acme", "a", "9-to-5", strings.Repeat("a", 63)} {
		if !tenants.IsName(name) {
			t.Errorf("%q is no name", name)
		}
	}
	for _, name := range []string{"", "-a", "Acme", "a.b", "a/b", "..", "a b", "ä", strings.Repeat("a", 64)} {
		if tenants.IsName(name) {
			t.Errorf("%q is a name", name)
		}
	}
}

func TestATenantIsMadeWholeAndPutAside(t *testing.T) {
	f := made(t)
	if got := f.All(); !slices.Equal(got, []runtime.Tenant{runtime.DefaultTenant, "acme"}) || !f.Has("acme") || f.Has("other") {
		t.Errorf("tenants: %v", got)
	}
	if got := f.Born("acme"); !got.Equal(now) {
		t.Errorf("born %s", got)
	}
	left, err := os.ReadDir(f.Home.Tenants())
	if err != nil || len(left) != 1 {
		t.Errorf("the folder of tenants holds %v; %v", left, err)
	}
	aside, err := f.PutAside("acme", now)
	if err != nil || f.Has("acme") || len(f.All()) != 1 {
		t.Errorf("put aside: %v, tenants %v", err, f.All())
	}
	if _, err := os.Stat(filepath.Join(aside, tenants.RulesName)); err != nil {
		t.Error("its rules are lost:", err)
	}
	if again, err := f.PutAside("acme", now); again != "" || err != nil {
		t.Errorf("without a folder: %q %v", again, err)
	}
}

// One whose beginning nobody knows has no records, so that it gets nobody else's; one from
// before beginnings were noted has them all.
func TestATenantOfUnknownAgeHasNoRecords(t *testing.T) {
	f := made(t)
	file := filepath.Join(f.Home.Tenant("acme"), "made")
	if err := os.WriteFile(file, []byte("yesterday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if born := f.Born("acme"); !born.After(now.AddDate(1000, 0, 0)) {
		t.Errorf("born %s", born)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if born := f.Born("acme"); !born.IsZero() {
		t.Errorf("born %s", born)
	}
}

func TestWhereRulesAre(t *testing.T) {
	f := made(t)
	there := t.TempDir()
	if err := os.Mkdir(filepath.Join(there, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rules  tenants.Rules
		tenant runtime.Tenant
		want   string
	}{
		{tenants.Rules{}, runtime.DefaultTenant, f.Home.Policy()},
		{tenants.Rules{Path: "/etc/p.yaml"}, runtime.DefaultTenant, "/etc/p.yaml"},
		{tenants.Rules{Path: "/etc/p.yaml"}, "acme", filepath.Join(f.Home.Tenant("acme"), "policy.yaml")},
		{tenants.Rules{Elsewhere: there}, "acme", filepath.Join(there, "acme.yaml")},
		{tenants.Rules{Elsewhere: there}, "folder", filepath.Join(there, "folder")},
	} {
		c.rules.Folders = f
		if got := c.rules.File(c.tenant); got != c.want {
			t.Errorf("%s: %s, not %s", c.tenant, got, c.want)
		}
	}
}

// Rules that are gone are no default, and those of the others stay in force.
func TestLostRulesAreAFaultOfTheirTenantAlone(t *testing.T) {
	r := tenants.Rules{Folders: made(t), UID: os.Getuid()}
	if err := os.Remove(r.File("acme")); err != nil {
		t.Fatal(err)
	}
	set, faults := r.Read(nil)
	if set[runtime.DefaultTenant] == nil || set["acme"] != nil || len(faults) != 1 || faults["acme"] == nil {
		t.Errorf("set %v, faults %v", set, faults)
	}
	if err := faults.Err(); err == nil || !strings.Contains(err.Error(), "tenant acme has no policy") {
		t.Error(err)
	}
	if err := (tenants.Faults{}).Err(); err != nil {
		t.Error(err)
	}
}

// A policy that the configuration names and that is gone, or misspelt, or not mounted, is no
// default. Only the home's own file need not be there.
func TestAPolicyThatTheConfigurationNamesMustBeThere(t *testing.T) {
	r := tenants.Rules{Folders: made(t), UID: os.Getuid()}
	if set, faults := r.Read(nil); set[runtime.DefaultTenant] == nil || faults[runtime.DefaultTenant] != nil {
		t.Errorf("without policy.path: %v", faults)
	}
	for _, name := range []string{"rules", filepath.Join("rules", "policy.yaml"), "rules.yaml"} {
		r.Path = filepath.Join(t.TempDir(), name)
		set, faults := r.Read(nil)
		if set[runtime.DefaultTenant] != nil || set["acme"] == nil || faults[runtime.DefaultTenant] == nil {
			t.Fatalf("%s: %v", name, faults)
		}
		if err := runtime.AsError(faults.Err()); !strings.Contains(err.Msg, "there is no "+r.Path) || !strings.Contains(err.Hint, "policy.path") {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// While such a policy is put in its place anew, as by git, it is now and then not there: what is
// read then is a fault as well, however short it is.
func TestAPolicyThatIsReplacedIsNeverTheDefault(t *testing.T) {
	r := tenants.Rules{Folders: folders(t), UID: os.Getuid(), Path: filepath.Join(t.TempDir(), "rules.yaml")}
	text := []byte("version: 1\nrules: [{name: none, match: {}, then: deny}]\n")
	if err := os.WriteFile(r.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	set, faults := r.Read(nil)
	if len(faults) > 0 {
		t.Fatal(faults.Err())
	}
	want := set[runtime.DefaultTenant].Digest()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for other := r.Path + ".new"; ; {
			select {
			case <-end:
				return
			default:
			}
			if os.WriteFile(other, text, 0o600) != nil || os.Remove(r.Path) != nil || os.Rename(other, r.Path) != nil {
				return
			}
		}
	}()
	defer func() { close(end); <-ended }()
	for range 5000 {
		set, faults := r.Read(nil)
		p := set[runtime.DefaultTenant]
		if (p == nil) != (len(faults) == 1) || p != nil && p.Digest() != want {
			t.Fatalf("another policy is in force: %v", faults)
		}
	}
}

// What is written is what a link leads to, and not the link.
func TestALinkToRulesStays(t *testing.T) {
	r := tenants.Rules{Folders: made(t), UID: os.Getuid()}
	file, real := r.File("acme"), filepath.Join(r.Home.Dir, "real.yaml")
	if err := os.Rename(file, real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, file); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Writable("acme"); err != nil || got != want {
		t.Errorf("%s, not %s; %v", got, want, err)
	}
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Writable("acme"); err == nil || !strings.Contains(err.Error(), "leads to no file") {
		t.Error(err)
	}
}
