package connector

import (
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A provider that is asked too often has not failed, and says when it may be asked again.
func TestAProviderThatIsAskedTooOftenHasNotFailed(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "the provider is asked too often: start again later", 90 * time.Second: "the provider is asked too often: start again in 1m30s",
	} {
		err := (&SignIn{}).notSignedIn(&refusal{status: http.StatusTooManyRequests, after: after})
		if got := runtime.AsError(err).Hint; got != want {
			t.Errorf("after %s: %q", after, got)
		}
	}
}
