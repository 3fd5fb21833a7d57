package app

import (
	"context"

	"github.com/kimbap-run/kimbap/internal/trial"
)

// What `kimbap service test` is told and says.
type (
	Trial = trial.Options
	Tried = trial.Tried
)

// TryService tries a service file, without the home or any key.
func TryService(ctx context.Context, o Trial) ([]Tried, error) { return trial.Run(ctx, o) }
