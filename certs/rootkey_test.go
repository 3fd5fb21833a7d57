package certs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// counting counts how often the root's key is opened.
type counting struct {
	box
	opened int
}

func (c *counting) Open(sealed, aad []byte) ([]byte, error) {
	c.opened++
	return c.box.Open(sealed, aad)
}

func TestTheRootsKeyIsOpenedForSignaturesOnly(t *testing.T) {
	sealer := &counting{box: newBox(t, 1)}
	c := newClock()
	a, err := New(Options{Dir: newDir(t), Sealer: sealer, Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	step := func(what string, want int, do func() error) {
		t.Helper()
		sealer.opened = 0
		if err := do(); err != nil || sealer.opened != want {
			t.Errorf("%s: the key was opened %d times, want %d (%v)", what, sealer.opened, want, err)
		}
	}
	two := [][]string{{"a.test:443", "b.test:443"}, {"c.test:443"}}
	step("two services", 1, func() error { return a.Permit(two...) })
	first := issuerOf(t, a, "a.test")
	step("the same again", 0, func() error { return a.Permit(two...) })
	step("leaves", 0, func() error { leaf(t, a, "a.test:443"); leaf(t, a, "c.test:443"); return nil })
	step("one service more", 1, func() error { return a.Permit(append(two, []string{"d.test:443"})...) })
	if issuerOf(t, a, "a.test") != first {
		t.Error("what was signed is signed again")
	}
	step("one service less", 0, func() error { return a.Permit(two[0]) })
	if a.Permits("d.test:443") {
		t.Error("a service that is gone has certificates")
	}
	if _, err := a.Leaf("c.test:443"); !errors.Is(err, errNotPermitted) {
		t.Errorf("a cached leaf of a service that is gone: %v", err)
	}
	c.Add(issuerLife - issuerRenew + time.Hour)
	step("renewal of all", 1, func() error { leaf(t, a, "a.test:443"); leaf(t, a, "b.test:443"); return nil })
	if holdsRootKey(a) {
		t.Error("the root's key stays in memory")
	}
}

// holdsRootKey reports whether the root's key lies in memory in clear.
func holdsRootKey(a *Authority) bool {
	seen := map[uintptr]bool{}
	return heldKey(reflect.ValueOf(a), a.Root().PublicKey, seen) || heldKey(reflect.ValueOf(a.standing.Load()), a.Root().PublicKey, seen)
}

// heldKey walks what v holds for the private key of a public one.
func heldKey(v reflect.Value, public any, seen map[uintptr]bool) bool {
	want := reflect.ValueOf(public).Elem().FieldByName("X").Elem()
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && seen[v.Pointer()] {
			return false
		}
		if v.Kind() == reflect.Pointer {
			seen[v.Pointer()] = true
		}
		return heldKey(v.Elem(), public, seen)
	case reflect.Struct:
		if v.Type().Name() == "PrivateKey" {
			x := v.FieldByName("PublicKey").FieldByName("X").Elem()
			return fmt.Sprint(x) == fmt.Sprint(want)
		}
		for i := range v.NumField() {
			if heldKey(v.Field(i), public, seen) {
				return true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if heldKey(v.MapIndex(key), public, seen) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() != reflect.Uint8 && heldKey(v.Index(i), public, seen) {
				return true
			}
		}
	}
	return false
}

// The root of a run signs once; what comes later has no certificate.
func TestARunForgetsTheKeyOfItsRoot(t *testing.T) {
	c := newClock()
	a := opened(t, Options{Clock: c.Now}, "a.test:443")
	if a.standing.Load().key != nil {
		t.Error("the key can still be had")
	}
	if err := a.Permit([]string{"a.test:443", "b.test:443"}); err != nil {
		t.Error(err)
	}
	if a.Permits("b.test:443") || !a.Permits("a.test:443") {
		t.Error("the second call permits more, or less")
	}
	if _, err := a.Leaf("b.test:443"); !errors.Is(err, errNotPermitted) {
		t.Errorf("%v", err)
	}
	for range 29 { // a run may last as long as its token
		c.Add(day)
		if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c.Add(2 * day)
	if _, err := a.Leaf("a.test:443"); err == nil || !strings.Contains(err.Error(), "start the run again") {
		t.Errorf("after its end: %v", err)
	}
}

// A service that is installed while the root's key cannot be opened has its leaves
// as soon as it can, without being named again.
func TestWhatCouldNotBePermittedIsWhenTheKeyIsBack(t *testing.T) {
	for name, mend := range map[string]func(dir string, c *clock) error{
		"the same root": func(dir string, _ *clock) error { return os.Rename(keyIn(dir)+".away", keyIn(dir)) },
		"a new root": func(dir string, c *clock) error {
			rotate(t, dir, c, day)
			return nil
		},
	} {
		dir, c := newDir(t), newClock()
		a := open(t, dir, c, "a.test:443")
		if err := os.Rename(keyIn(dir), keyIn(dir)+".away"); err != nil {
			t.Fatal(err)
		}
		if err := a.Permit([]string{"a.test:443", "b.test:443"}); err == nil {
			t.Fatalf("%s: permitted without a key", name)
		}
		if a.Permits("b.test:443") || !a.Permits("a.test:443") {
			t.Errorf("%s: what was permitted does not stay", name)
		}
		if err := mend(dir, c); err != nil {
			t.Fatal(err)
		}
		if changed, err := a.Refresh(); !changed || err != nil {
			t.Errorf("%s: %t %v", name, changed, err)
		}
		for _, host := range []string{"a.test", "b.test"} {
			if err := verify(a, leaf(t, a, host+":443"), host, c.Now()); err != nil {
				t.Errorf("%s: %s: %v", name, host, err)
			}
		}
		if changed, err := a.Refresh(); changed || err != nil {
			t.Errorf("%s: it is done twice: %t %v", name, changed, err)
		}
	}
}
