package app

import (
	"context"
	"strings"

	"github.com/kimbap-run/kimbap/internal/trial"
)

// What `kimbap service test` is told and says.
type (
	Trial = trial.Options
	Tried = trial.Tried
)

// TryService tries a service file, without any key. No home is opened or needed; of its
// configuration upstream.ca_file counts for an upstream that is spoken to over TLS.
func TryService(ctx context.Context, o Trial, where Options) ([]Tried, error) {
	if strings.HasPrefix(strings.ToLower(o.Upstream), "https:") {
		a, err := New(where)
		if err != nil {
			return nil, err
		}
		if o.TLS, err = a.upstreamTLS(); err != nil {
			return nil, err
		}
	}
	return trial.Run(ctx, o)
}
