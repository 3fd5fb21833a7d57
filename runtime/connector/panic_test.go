package connector

import (
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// broken is the way to a provider on which something of ours, or of a library, panics.
type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { panic("nobody thought of it") }

// What panics in a renewal denies the request, and no more: the process lives, and the next
// renewal is not kept out.
func TestAPanicInARenewalDenies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(2 * time.Hour)
	good := r.o.Client
	r.o.Client = &http.Client{Transport: broken{}}
	if _, err := use(t, r.Connector); err == nil || err.Code != runtime.CodeInternal {
		t.Fatalf("%+v", err)
	}
	r.o.Client = good
	r.uses(t, "access-token-1")
}
