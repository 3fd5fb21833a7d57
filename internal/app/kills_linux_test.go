package app_test

import (
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// killedOver runs a command over copies of a home, and kills it (kill -9) in each before
// another of its steps, until it lives: at every one in make soak, here at some. Every copy
// is looked at.
func killedOver(t *testing.T, home string, times int, all []steps, what string, args []string, look func(dir string, lived bool)) {
	t.Helper()
	stride := 3
	if os.Getenv("KIMBAP_ROUNDS") != "" {
		stride = 1
	}
	killed := 0
	for _, kill := range all {
		lived := false
		for at := 1 + rand.N(stride); !lived; at += stride {
			dir := copyHome(t, home)
			for range times { // one that is killed may be begun again before anything else
				lived = killedAt(t, kill, at, what, dir, args...)
			}
			look(dir, lived)
			if t.Failed() {
				t.Fatalf("%s, killed at step %d of %s", what, at, kill.calls)
			}
			if !lived {
				killed++
			}
		}
	}
	t.Logf("killed %d times", killed)
	if stride == 1 && killed < 10 {
		t.Error("the test looks in the wrong place")
	}
}

// stepsOf are what a command does in these files of a home, in the database, and in the
// records of short commands. What writes those has threads of their own, as in stepsOfKeys.
func stepsOf(t *testing.T, home string, files ...string) []steps {
	t.Helper()
	for _, pattern := range []string{"audit", "audit/*", "audit/*/*.jsonl"} {
		found, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			name, err := filepath.Rel(home, file)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, name)
		}
	}
	return append(stepsOfKeys(files...), steps{"write,pwrite64,ftruncate,fallocate", files})
}

// over opens a home as the next command does, whose trail must verify.
func over(t *testing.T, dir string, clock func() time.Time) *app.App {
	t.Helper()
	o := apptest.OptionsOver(dir, "", &apptest.Buffer{}, false)
	o.Clock = clock
	a, err := app.New(o)
	if err == nil {
		err = a.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err := a.VerifyTrail(t.Context())
	if err != nil || !report.OK {
		t.Errorf("%v\n%s", err, report)
	}
	return a
}

// valueOf is a stored value, "" for none.
func valueOf(t *testing.T, a *app.App, name string) string {
	t.Helper()
	c, err := a.Vault().Credential(t.Context(), runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: name})
	if err != nil && runtime.CodeOf(err) != runtime.CodeNoCredential {
		t.Errorf("%s: %v", name, err)
	}
	return c.Value.Reveal()
}

// A value that is being stored when its command is killed is there whole or not at all, in
// the place of an old one too; the others are as they were, what was done is recorded, and
// the same command does it afterwards.
func TestStoringKilledAtItsSteps(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	k := apptest.New(t, apptest.Options{})
	home := copyHome(t, k.Dir)
	if !opensWithItsSecret(t, home) { // which also brings the log into the file
		t.Fatal("a copy that is whole does not open")
	}
	const value = "value-of-another-9c1f"
	for name, before := range map[string]string{"fresh": "", apptest.Secret: apptest.Key} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedOver(t, home, 1, stepsOf(t, home), "vault-set", []string{name, value}, func(dir string, lived bool) {
				a := over(t, dir, time.Now)
				defer func() { _ = a.Close() }()
				now := valueOf(t, a, name)
				if now != value && (now != before || lived) {
					t.Errorf("it lived %v, and the value is %q", lived, now)
				}
				recorded := 0
				for _, r := range (&apptest.Kimbap{Dir: dir}).Records(t) {
					if r.Event == "vault.set" && r.Fields["name"] == name {
						recorded++
					}
				}
				if now == value && recorded == 0 {
					t.Error("it is stored, and not recorded")
				}
				if name != apptest.Secret && valueOf(t, a, apptest.Secret) != apptest.Key {
					t.Error("another value is lost")
				}
				if _, _, err := a.SetSecret(t.Context(), name, runtime.NewSecret(value+"2"), app.SecretOptions{Hosts: []string{apptest.Host}}); err != nil || valueOf(t, a, name) != value+"2" {
					t.Errorf("stored again: %v", err)
				}
			})
		})
	}
}

// A root that is being replaced when its command is killed, and the next one too, is the
// old one or a new one; what programs are told to trust names it from the next start on,
// and it signs.
func TestRotationsOfTheRootKilledAtTheirSteps(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	k := apptest.New(t, apptest.Options{})
	home := copyHome(t, k.Dir)
	files := []string{"ca", "ca/root.key", "ca/ca.pem", "ca/bundle.pem"}
	killedOver(t, home, 2, stepsOf(t, home, files...), "ca-rotate", nil, func(dir string, _ bool) {
		a := over(t, dir, time.Now)
		defer func() { _ = a.Close() }()
		ca, err := a.CA(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		for _, name := range []string{"ca.pem", "bundle.pem"} {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(mustRead(t, filepath.Join(dir, "ca", name)))
			if _, err := ca.Root().Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				t.Errorf("%s does not name the root: %v", name, err)
			}
		}
		if err := ca.Permit([]string{apptest.Authority}); err != nil {
			t.Error(err)
		}
		if _, err := ca.Leaf(apptest.Authority); err != nil {
			t.Error(err)
		}
		if done, err := a.RotateCA(t.Context(), true); err != nil || done.Old == done.Fingerprint {
			t.Errorf("rotated again: %+v %v", done, err)
		}
	})
}

// Old records that are being given up when their process is killed leave a trail that
// verifies. The next process gives up the rest, and nothing finds them any more: neither in
// the index nor among the approvals.
func TestRetentionKilledAtItsSteps(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	k := apptest.New(t, apptest.Options{Policy: askWrites, Config: "audit: {retention: 1h}\n"})
	asked := k.Do(t, write, `{"text":"old"}`).Problem.Approval
	person := k.Open(t, "")
	if _, err := person.Reject(t.Context(), asked, "no"); err != nil {
		t.Fatal(err)
	}
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != http.StatusOK {
		t.Fatal(a.Status)
	}
	if _, err := k.App.AnchorTrail(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := person.SearchTrail(t.Context(), app.RecordQuery{Action: "notes.get-note"}); err != nil || len(found) == 0 { // it is in the index
		t.Fatal(found, err)
	}
	home := copyHome(t, k.Dir)
	killedOver(t, home, 1, stepsOf(t, home), "prune", nil, func(dir string, lived bool) {
		a := over(t, dir, inTenHours)
		defer func() { _ = a.Close() }()
		if _, err := a.AnchorTrail(t.Context()); err != nil {
			t.Error(err)
		}
		if report, err := a.VerifyTrail(t.Context()); err != nil || !report.OK {
			t.Errorf("after the next: %v\n%s", err, report)
		}
		left, err := filepath.Glob(filepath.Join(dir, "audit", "proxy", "*.jsonl"))
		if err != nil || len(left) != 1 {
			t.Errorf("left are %q (%v)", left, err)
		}
		found, err1 := a.SearchTrail(t.Context(), app.RecordQuery{Action: "notes.get-note"})
		list, err2 := a.ListApprovals(t.Context(), true)
		if err := errors.Join(err1, err2); err != nil || len(found)+len(list) > 0 {
			t.Errorf("it lived %v, and %d records and %d approvals are found: %v", lived, len(found), len(list), err)
		}
	})
}
