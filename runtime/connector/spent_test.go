package connector

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// refuse is an API's 401 to what a request had.
func refuse(t *testing.T, c *Connector, named bool) (sent string) {
	t.Helper()
	cred, err := c.Credential(t.Context(), "default", asBearer)
	if err != nil || cred.Refused == nil {
		t.Fatalf("%v, %v", cred.Refused == nil, err)
	}
	cred.Refused(named)
	return cred.Value.Reveal()
}

// A token that an API calls invalid before its end is renewed by the next request, in this
// process and in another one; a process that is ending has told the others.
func TestATokenThatAnAPIRefusesIsRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(5 * time.Minute)
	refuse(t, r.Connector, true)
	if got, err := use(t, r.Connector); got != "access-token-1" {
		t.Fatalf("%q %v", got, err)
	}
	r.uses(t, "access-token-1")
	if r.p.requests() != 1 {
		t.Errorf("%d renewals", r.p.requests())
	}
	r.now.Advance(5 * time.Minute)
	last := r.another(t)
	refuse(t, last, true)
	if err := last.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !r.s.stored(t).Spent {
		t.Error("a command that ends has not told the next one")
	}
	r.uses(t, "access-token-2")
	if r.s.stored(t).Spent {
		t.Error("the new token is taken for one that was refused")
	}
}

// An API that refuses whatever it is shown has the provider asked once a minute, by as many
// processes as there are, and by ten when it does not say that it is the token.
func TestAnAPIThatAlwaysRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		named bool
		most  int
	}{{true, 60}, {false, 6}} {
		r := newRig(t)
		all := []*Connector{r.Connector, r.another(t), r.another(t)}
		for range 3600 / 5 {
			r.now.Advance(5 * time.Second)
			for _, one := range all {
				refuse(t, one, c.named)
			}
		}
		for _, one := range all {
			if err := one.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got := r.p.requests(); got > c.most || got < c.most/2 {
			t.Errorf("named %v: %d renewals in an hour", c.named, got)
		}
	}
}

// While the provider fails, gives the same token again or has ended the grant, a refused token
// is what there is; and of one that cannot be renewed nothing is believed.
func TestARefusedTokenThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(5 * time.Minute)
	r.p.answer(http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`)
	refuse(t, r.Connector, true)
	for range 3 {
		r.uses(t, "access-token-zero")
	}
	if r.p.requests() != 1 {
		t.Errorf("a provider that fails is asked %d times", r.p.requests())
	}
	r.p.answer(http.StatusOK, `{"access_token":"access-token-zero","token_type":"Bearer","expires_in":3600}`)
	r.now.Advance(time.Minute)
	for range 3 {
		r.uses(t, "access-token-zero")
	}
	if r.p.requests() != 2 {
		t.Errorf("a provider that gives the same token is asked %d times", r.p.requests())
	}
	r.p.answer(http.StatusBadRequest, `{"error":"invalid_grant"}`)
	r.now.Advance(5 * time.Minute)
	refuse(t, r.Connector, true)
	r.uses(t, "access-token-zero")
	if _, err := use(t, r.Connector); err == nil || err.Code != runtime.CodeNoCredential {
		t.Errorf("the grant is over: %v", err)
	}

	lone := newRig(t)
	g := lone.s.stored(t)
	g.RefreshToken = ""
	lone.s.set(t, g, 2)
	lone.now.Advance(5 * time.Minute)
	refuse(t, lone.Connector, true)
	lone.uses(t, "access-token-zero")
	if lone.s.stored(t).Spent || strings.Join(lone.s.events, "") != "" {
		t.Error("a token that nothing renews was given up")
	}
}

// Where the database is full, the process that heard of it knows it all the same, and its end
// names no loss.
func TestARefusalThatCannotBeStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(5 * time.Minute)
	r.s.fill(true)
	refuse(t, r.Connector, true)
	for end := time.Now().Add(10 * time.Second); r.s.tried() == 0; {
		if time.Now().After(end) {
			t.Fatal("it was not tried")
		}
		time.Sleep(time.Millisecond)
	}
	r.s.fill(false)
	r.uses(t, "access-token-1")
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
