package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheIsSharedAndRenewed(t *testing.T) {
	c := newClock()
	a := open(t, newDir(t), c, "a.test:443", "b.test:443", "herd.test:443")
	first := leaf(t, a, "a.test:443")
	if leaf(t, a, "a.test:8443") != first || leaf(t, a, "b.test:443").PrivateKey != first.PrivateKey {
		t.Error("the leaf or its key is not shared")
	}
	c.Add(leafLife - leafRenew - time.Minute)
	if leaf(t, a, "a.test:443") != first {
		t.Error("renewed too early")
	}
	c.Add(2 * time.Minute)
	second := leaf(t, a, "a.test:443")
	if second == first || verify(a, second, "a.test", c.Now().Add(leafRenew)) != nil {
		t.Error("not renewed in time")
	}
	var group sync.WaitGroup
	got := make([]*tls.Certificate, 64)
	for i := range got {
		group.Go(func() { got[i], _ = a.Leaf("herd.test:443") })
	}
	group.Wait()
	for _, g := range got {
		if g == nil || g != got[0] {
			t.Fatal("callers at once got different leaves")
		}
	}
}

// 5,000 hosts, of services and of none: what is kept of them is bounded.
func TestCachesAreBounded_TL009(t *testing.T) {
	var hosts []string
	for i := range 5000 {
		hosts = append(hosts, fmt.Sprintf("h%d.test:443", i))
	}
	a := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now, AnyHost: true}, hosts...)
	for _, host := range hosts {
		leaf(t, a, host)
	}
	for i := range maxSingles + 10 {
		leaf(t, a, fmt.Sprintf("other%d.test:443", i))
	}
	if a.leaves.Len() != maxLeaves || a.singles.Len() != maxSingles {
		t.Errorf("%d leaves, %d intermediates for one host each", a.leaves.Len(), a.singles.Len())
	}
}

// The proxy lives for months: leaves stay good until the root ends, and the
// root is never replaced.
func TestAYear(t *testing.T) {
	c := newClock()
	dir := newDir(t)
	a := open(t, dir, c, "a.test:443")
	issuers := map[*issuer]bool{}
	for c.Now().Before(a.Root().NotAfter.Add(-time.Hour)) {
		got := leaf(t, a, "a.test:443")
		if err := verify(a, got, "a.test", c.Now()); err != nil {
			t.Fatalf("%s: %v", c.Now(), err)
		}
		if got.Leaf.NotAfter.After(a.Root().NotAfter) {
			t.Fatalf("a leaf outlives the root: %s", got.Leaf.NotAfter)
		}
		issuers[issuerOf(t, a, "a.test")] = true
		if soon := a.Root().NotAfter.Sub(c.Now()) < 30*day; soon != a.ExpiresSoon() {
			t.Fatalf("%s: ExpiresSoon is %t", c.Now(), a.ExpiresSoon())
		}
		c.Add(11 * time.Hour)
	}
	if n := len(issuers); n < 50 || n > 200 {
		t.Errorf("%d intermediates in a year", n)
	}
	c.Add(12 * time.Hour)
	if _, err := a.Leaf("a.test:443"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after the end: %v", err)
	}
	if p := refusal(t, dir, 1, c); p.File != a.CAFile() || !strings.Contains(p.Msg, "expired") || !strings.Contains(p.Fix, "clock") || !strings.Contains(p.Fix, "ca rotate") {
		t.Errorf("%v", p)
	}
}

// Nobody takes a leaf of a root whose time has not begun: none is made, and what is wrong is said.
func TestAClockThatIsSetBackBeforeTheRoot(t *testing.T) {
	c := newClock()
	sealer := &counting{box: newBox(t, 1)}
	a := opened(t, Options{Dir: newDir(t), Sealer: sealer, Clock: c.Now, AnyHost: true}, "a.test:443")
	run := opened(t, Options{Clock: c.Now, Sealer: newBox(t, 1)}, "a.test:443")
	leaf(t, a, "a.test:443")
	c.Add(-10 * day)
	before := sealer.opened
	for _, authority := range []string{"a.test:443", "other.test:443"} {
		_, err := a.Leaf(authority)
		var problem *FileError
		if !errors.As(err, &problem) || !strings.Contains(problem.Msg, "not valid before") || sealer.opened != before {
			t.Errorf("%s: %v, with the key opened %d times", authority, err, sealer.opened-before)
		}
	}
	if _, err := run.Leaf("a.test:443"); err == nil || !strings.Contains(err.Error(), "clock") || strings.Contains(err.Error(), "expired") {
		t.Errorf("in a run: %v", err)
	}
	c.Add(10 * day)
	for _, one := range []*Authority{a, run} {
		if err := verify(one, leaf(t, one, "a.test:443"), "a.test", c.Now()); err != nil {
			t.Error(err)
		}
	}
}

func TestRenewalThatFailsUsesWhatIsLeft(t *testing.T) {
	c := newClock()
	dir := newDir(t)
	a := open(t, dir, c, "a.test:443", "b.test:443")
	if err := os.Remove(keyIn(dir)); err != nil {
		t.Fatal(err)
	}
	c.Add(issuerLife - issuerRenew + time.Hour)
	if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
		t.Errorf("the old intermediate is not used: %v", err)
	}
	c.Add(issuerLife)
	if _, err := a.Leaf("b.test:443"); err == nil || !strings.Contains(err.Error(), "renew the intermediate") {
		t.Errorf("without an intermediate: %v", err)
	}
}

func BenchmarkMint(b *testing.B) {
	a := open(b, newDir(b), newClock(), "api.github.com:443")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.mint("api.github.com"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCached(b *testing.B) {
	a := open(b, newDir(b), newClock(), "api.github.com:443")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Leaf("api.github.com:443"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCallersAtOnceShareOneSignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		var signing atomic.Int32
		gate := make(chan struct{})
		a, err := New(Options{Clock: func() time.Time {
			if armed.Load() { // signing begins with a look at the clock
				signing.Add(1)
				<-gate
			}
			return newClock().Now()
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Permit([]string{"herd.test:443"}); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				if _, err := a.Leaf("herd.test:443"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := signing.Load(); n != 1 {
			t.Errorf("%d signatures under way for one host", n)
		}
		armed.Store(false)
		close(gate)
		group.Wait()
	})
}
