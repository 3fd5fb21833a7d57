package app

import (
	"context"
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// An act that ended because its caller went away has its end in the trail as well.
func TestTheEndOfAnActIsRecordedWithoutItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var put []record.Event
	err := between(ctx, func(ctx context.Context, event record.Event) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		put = append(put, event)
		return nil
	}, record.Event{Kind: "vault.set"}, func() error {
		cancel()
		return context.Cause(ctx)
	})
	if !errors.Is(err, context.Canceled) || len(put) != 2 || put[1].Fields["result"] == "" {
		t.Errorf("%v, recorded %+v", err, put)
	}
}
