package rest_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// No key of the caller's goes beside the stored one, be it that the caller's is kept where it
// stands in the place of the stored one.
func TestNoOtherKeyGoesBesideTheStoredOne(t *testing.T) {
	for _, caller := range []runtime.CallerAuth{"", runtime.CallerReplace, runtime.CallerKeep} {
		for _, fields := range [][]string{
			{"X-Api-Key: mine"},
			{"X-Api-Key: mine", "Authorization: Bearer test_kimbap"},
			{"x_api_key: mine", "Accept: */*"},
		} {
			r := newRig(t, servicestest.Options{})
			c := r.call("GET", "/", fields...)
			c.Action.Auth.Caller = caller
			_, result := r.must(t, c)
			equal(t, "used", result.Used, runtime.CredentialStored)
			if head := string(r.Last(t).Head); strings.Contains(head, "mine") || !strings.Contains(head, canary) {
				t.Errorf("caller %q, %q: left\n%s", caller, fields, head)
			}
		}
	}
	r := newRig(t, servicestest.Options{})
	c := r.call("GET", "/", "X-Api-Key: mine", "Authorization: Bearer of-mine")
	c.Action.Auth.Caller = runtime.CallerKeep
	_, result := r.must(t, c)
	equal(t, "used", result.Used, runtime.CredentialCaller)
	if head := string(r.Last(t).Head); !strings.Contains(head, "X-Api-Key: mine") || !strings.Contains(head, "of-mine") || strings.Contains(head, canary) {
		t.Errorf("what is kept has left as\n%s", head)
	}
}
