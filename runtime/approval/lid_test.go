package approval_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// What a lid closes the PIN opens, and no other, without what the vault seals; tries
// are counted with all others.
func TestALidIsLiftedByThePINAlone(t *testing.T) {
	d := newDesk(t)
	ctx, by := t.Context(), operator(me)
	if who, err := d.OwnPin(ctx, by); err != nil || who != "" {
		t.Fatalf("%q %v", who, err)
	}
	if _, err := d.Lid(ctx, by); runtime.CodeOf(err) != runtime.CodeInvalidInput {
		t.Fatalf("a lid without a PIN: %v", err)
	}
	d.setPIN(t, "123456")
	l, err := d.Lid(ctx, by)
	if who, oerr := d.OwnPin(ctx, by); err != nil || oerr != nil || who != me || l.Who != me || l.Key.Empty() {
		t.Fatalf("%+v %v %v", l, err, oerr)
	}
	key := l.Key
	l.Key = runtime.Secret{} // what is kept beside the lid
	lift := func(pin string) error {
		return d.Lift(ctx, by, l, runtime.NewSecret(pin), key.Equal)
	}
	if err := lift("123456"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if e := runtime.AsError(lift("000000")); e.Code != runtime.CodeForbidden || e.Reason != runtime.ReasonWrongPIN {
			t.Fatal(e)
		}
	}
	for _, err := range []error{lift("123456"), d.Prove(ctx, by, runtime.NewSecret("123456"))} {
		if e := runtime.AsError(err); e == nil || e.Code != runtime.CodeRateLimited {
			t.Fatalf("after three wrong ones: %v", e)
		}
	}
	d.clock.turn(time.Minute)
	if err := lift("123456"); err != nil {
		t.Fatal(err)
	}
	if err := d.Prove(ctx, by, runtime.NewSecret("123456")); err != nil {
		t.Fatal(err)
	}
	if e := runtime.AsError(d.Prove(ctx, by, runtime.NewSecret("000000"))); e == nil || e.Reason != runtime.ReasonWrongPIN {
		t.Error(e)
	}
}

// Without the row of the PIN, as over an older copy of the database, the PIN still opens.
func TestALidIsLiftedWithoutTheRowOfThePIN(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "123456")
	l, err := d.Lid(t.Context(), operator(me))
	if err != nil {
		t.Fatal(err)
	}
	empty := newDesk(t)
	for pin, opens := range map[string]bool{"123456": true, "000000": false} {
		if err := empty.Lift(t.Context(), operator(me), l, runtime.NewSecret(pin), l.Key.Equal); (err == nil) != opens {
			t.Errorf("%s: %v", pin, err)
		}
	}
}

// An edited recipe cannot make the machine work for an hour, nor panic; agents lift nothing.
func TestAnEditedRecipeIsRefused(t *testing.T) {
	d := newDesk(t)
	for _, recipe := range []map[string]any{
		{}, {"salt": []byte("salt"), "passes": 1 << 20, "memory": 64, "threads": 1}, {"salt": []byte("salt"), "passes": 1, "memory": 1 << 30, "threads": 1},
		{"salt": []byte("salt"), "passes": 1, "memory": 64, "threads": 0}, {"salt": []byte("salt"), "passes": 0, "memory": 64, "threads": 1},
	} {
		text, err := json.Marshal(recipe)
		if err != nil {
			t.Fatal(err)
		}
		asked := func(runtime.Secret) bool { t.Error("it was tried"); return false }
		if err := d.Lift(t.Context(), operator(me), approval.Lid{Who: me, Recipe: text}, runtime.NewSecret("x"), asked); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := d.Lift(t.Context(), agent("a"), approval.Lid{}, runtime.Secret{}, nil); runtime.CodeOf(err) != runtime.CodeForbidden {
		t.Error(err)
	}
	if err := d.Prove(t.Context(), agent("a"), runtime.Secret{}); runtime.CodeOf(err) != runtime.CodeForbidden {
		t.Error(err)
	}
}
