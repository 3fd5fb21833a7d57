package approval

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// plainly is a sealer that seals nothing.
type plainly struct{}

func (plainly) SealFor(_ context.Context, _ runtime.Tenant, _ string, plain, _ []byte) ([]byte, error) {
	return plain, nil
}

func (plainly) OpenFor(_ context.Context, _ runtime.Tenant, _ string, sealed, _ []byte) ([]byte, error) {
	return sealed, nil
}

// What an earlier kimbap has held in another form is read and not called edited, and is used for
// nothing.
func TestWhatAnEarlierKimbapHeldIsRead(t *testing.T) {
	d := &Desk{o: Options{Sealer: plainly{}, Clock: time.Now}, read: time.Now()}
	f := &dossier{
		HeldRequest: HeldRequest{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"amount":1,"Amount":2}`)},
		Created:     time.Now().UTC(), Expires: time.Now().Add(time.Hour).UTC(),
	}
	digest, err := f.formerDigest()
	if err != nil {
		t.Fatal(err)
	}
	a := f.row("apr_1", digest)
	if err := d.seal(t.Context(), &a, f); err != nil {
		t.Fatal(err)
	}
	if got, err := d.open(t.Context(), &a); err != nil || !got.former {
		t.Errorf("%+v %v", got, err)
	}
	a.State = Approved
	if _, _, err := d.use(t.Context(), &a); runtime.AsError(err).Reason != runtime.ReasonPolicyChanged {
		t.Errorf("used: %v", err)
	}
	call := &runtime.Call{Request: &runtime.Request{}, Principal: &runtime.Principal{}, Action: &runtime.Action{}}
	if err := d.sameAsHeld(t.Context(), &a, call, runtime.Verdict{}); err == nil || err.Error() != heldBefore(&a).Error() {
		t.Errorf("collected: %v", err)
	}
	a.Digest = "another"
	if _, err := d.open(t.Context(), &a); runtime.AsError(err).Reason != runtime.ReasonTampered {
		t.Errorf("an edited one: %v", err)
	}
}

// Its rows have secret arguments in their paths, and are not called edited for that.
func TestARowOfAnEarlierKimbapHasItsPathAsItCame(t *testing.T) {
	d := &Desk{o: Options{Sealer: plainly{}, Clock: time.Now}, read: time.Now()}
	f := &dossier{
		HeldRequest: HeldRequest{Args: runtime.Args{"token": "secret-1"}, Target: runtime.Target{Method: "DELETE", Authority: "api.test:443", Path: "/t/secret-1?x=1"}},
		Secret:      []string{"token"}, Created: time.Now().UTC(), Expires: time.Now().Add(time.Hour).UTC(),
	}
	digest, err := f.digest()
	if err != nil {
		t.Fatal(err)
	}
	a := f.row("apr_1", digest)
	if err := d.seal(t.Context(), &a, f); err != nil {
		t.Fatal(err)
	}
	for path, opens := range map[string]bool{"/t/[secret]": true, "/t/secret-1": true, "/t/secret-2": false, "/t/": false} {
		a.Path = path
		if _, err := d.open(t.Context(), &a); (err == nil) != opens {
			t.Errorf("%s: %v", path, err)
		}
	}
}
