package pass_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/pass"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// tokens are those that were made and not revoked.
type tokens struct {
	pass.Keeper
	now   time.Time
	n     int
	valid []string
	fault error // of making one
	lasts error // of revoking one
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	k := &tokens{now: time.Unix(1e9, 0)}
	k.Home = home.Folder{Dir: filepath.Join(t.TempDir(), "a[1]", "home")} // which is no pattern
	if _, err := k.Home.Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(k.Home.State(), 0o700); err != nil {
		t.Fatal(err)
	}
	k.Holder = func() string { return "me" }
	k.Alive = func(holder string) bool { return holder != "dead" }
	k.Clock = func() time.Time { return k.now }
	k.Log = zerolog.Nop()
	k.Mint = func(_ context.Context, ttl time.Duration) (runtime.Secret, string, time.Time, error) {
		if k.fault != nil {
			return runtime.Secret{}, "", time.Time{}, k.fault
		}
		k.n++
		id := fmt.Sprint("tok", k.n)
		k.valid = append(k.valid, id)
		return runtime.NewSecret("kb_" + id), id, k.now, nil
	}
	k.Revoke = func(_ context.Context, id string) error {
		if k.lasts != nil {
			return k.lasts
		}
		k.valid = slices.DeleteFunc(k.valid, func(one string) bool { return one == id })
		return nil
	}
	return k
}

func (k *tokens) shows(t *testing.T, want string) {
	t.Helper()
	if got, err := k.TokenOf(os.Getpid()); err != nil || got != want {
		t.Errorf("programs are given %q, not %q: %v", got, want, err)
	}
}

// Whoever tidies up the folder of states does not keep new shells from a proxy that runs.
func TestAPassThatWasRemovedIsWrittenAgain(t *testing.T) {
	k := newTokens(t)
	p, err := k.Issue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := os.RemoveAll(k.Home.State()); err != nil {
			t.Fatal(err)
		}
		p.Look(t.Context()) // the folder is for others to make
		if err := os.Mkdir(k.Home.State(), 0o700); err != nil {
			t.Fatal(err)
		}
		p.Look(t.Context())
		k.shows(t, "kb_tok1")
	}
	p.End(t.Context())
	p.Look(t.Context())
	if _, err := k.TokenOf(os.Getpid()); err == nil {
		t.Error("it has ended, and is written again")
	}
}

// A shell that took a token keeps a good one for the other half of its life.
func TestAPassIsRenewedAndRevoked(t *testing.T) {
	k := newTokens(t)
	p, err := k.Issue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.shows(t, "kb_tok1")
	file := filepath.Join(k.Home.State(), fmt.Sprintf("proxy-%d.pass", os.Getpid()))
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if how := system.Exposed(file, info); how != "" {
		t.Error("others can read it:", how)
	}
	p.Look(t.Context())
	k.shows(t, "kb_tok1")
	k.now = k.now.Add(14 * 24 * time.Hour)
	p.Look(t.Context())
	k.shows(t, "kb_tok2")
	if !slices.Equal(k.valid, []string{"tok1", "tok2"}) {
		t.Errorf("valid are %v", k.valid)
	}
	k.now, k.fault = k.now.Add(14*24*time.Hour), errors.New("the store is busy")
	p.Look(t.Context())
	k.fault = nil
	p.Look(t.Context())
	k.shows(t, "kb_tok2") // it tries again in an hour
	k.now = k.now.Add(time.Hour)
	p.Look(t.Context())
	k.shows(t, "kb_tok3")
	p.End(t.Context())
	if slices.Contains(k.valid, "tok2") || slices.Contains(k.valid, "tok3") {
		t.Errorf("after the end %v are valid", k.valid)
	}
	if _, err := k.TokenOf(os.Getpid()); err == nil {
		t.Error("its file is left")
	}
	p.Look(t.Context())
	if k.n != 3 {
		t.Error("what has ended was renewed")
	}
}

// A machine that sleeps ages a token like one that is awake.
func TestAPassIsRenewedAfterSleep(t *testing.T) {
	k := newTokens(t)
	k.now = time.Now()
	p, err := k.Issue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.now, k.fault = runtimetest.Asleep(k.now, 14*24*time.Hour), errors.New("the store is busy")
	p.Look(t.Context())
	k.now, k.fault = runtimetest.Asleep(k.now, time.Hour), nil
	p.Look(t.Context())
	k.shows(t, "kb_tok2")
}

func TestWhatTheDeadLeftIsRevokedAndTheLivingKeepTheirs(t *testing.T) {
	k := newTokens(t)
	for name, holder := range map[string]string{"proxy-1.pass": "dead", "proxy-2.pass": "alive"} {
		k.valid = append(k.valid, "of "+holder)
		text := fmt.Sprintf(`{"holder":%q,"ids":["of %s"],"token":"kb_x"}`, holder, holder)
		if err := os.WriteFile(filepath.Join(k.Home.State(), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := k.Issue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(k.valid, []string{"of alive", "tok1"}) && !slices.Equal(k.valid, []string{"tok1", "of alive"}) {
		t.Errorf("valid are %v", k.valid)
	}
	p.End(t.Context())
	if left := system.Files(k.Home.State(), "proxy-", ".pass"); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

func TestNoPassIsLeftWhereNoneCouldBeMade(t *testing.T) {
	k := newTokens(t)
	k.fault = errors.New("the store is busy")
	if p, err := k.Issue(t.Context()); p != nil || !errors.Is(err, k.fault) {
		t.Errorf("%v %v", p, err)
	}
	var none *pass.Pass
	none.Look(t.Context())
	none.End(t.Context())
}

// A token that cannot be handed to programs is revoked at once, or at the end with those that
// shells have: none of them is left valid however long the file cannot be written.
func TestATokenThatCannotBeWrittenIsRevoked(t *testing.T) {
	for name, lasts := range map[string]error{"at once": nil, "at the end": errors.New("the store is busy")} {
		t.Run(name, func(t *testing.T) {
			k := newTokens(t)
			p, err := k.Issue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			k.now, k.lasts = k.now.Add(14*24*time.Hour), lasts
			if err := os.RemoveAll(k.Home.State()); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				p.Look(t.Context())
				k.now = k.now.Add(time.Hour)
			}
			if k.n != 6 || lasts == nil && !slices.Equal(k.valid, []string{"tok1"}) {
				t.Errorf("of %d tokens %v are valid", k.n, k.valid)
			}
			if err := os.Mkdir(k.Home.State(), 0o700); err != nil {
				t.Fatal(err)
			}
			p.Look(t.Context())
			k.shows(t, "kb_tok7")
			k.lasts = nil
			p.End(t.Context())
			if len(k.valid) > 0 {
				t.Errorf("after the end %v are valid", k.valid)
			}
		})
	}
	k := newTokens(t)
	if err := os.RemoveAll(k.Home.State()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Issue(t.Context()); err == nil || len(k.valid) > 0 {
		t.Errorf("%v, valid are %v", err, k.valid)
	}
}
