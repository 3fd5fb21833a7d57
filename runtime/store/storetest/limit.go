package storetest

import (
	"testing"
	"time"
)

func limits(t *testing.T, s Store) {
	ctx := t.Context()
	first := at(1).Add(123) // nanoseconds count
	for bucket, want := range map[string]time.Time{"a": {}, "b": {}} {
		must(t, s.ChangeLimit(ctx, bucket, func(full time.Time) time.Time {
			same(t, "a new bucket", full, want)
			return first
		}))
	}
	must(t, s.ChangeLimit(ctx, "a", func(full time.Time) time.Time {
		if !full.Equal(first) {
			t.Errorf("full at %s, not %s", full, first)
		}
		return full.Add(time.Second)
	}))
	must(t, s.ChangeLimit(ctx, "b", func(full time.Time) time.Time {
		if !full.Equal(first) {
			t.Errorf("the other bucket: full at %s, not %s", full, first)
		}
		return full
	}))
}

// oneLimit lets many take the last of a bucket: each sees what the one before
// has left.
func oneLimit(t *testing.T, s Store) {
	const many, room = 40, 7
	start := at(1)
	yes := together(t, many, func(int) (bool, error) {
		took := false
		err := s.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time {
			if full.IsZero() {
				full = start
			}
			if took = full.Before(start.Add(room * time.Second)); took {
				full = full.Add(time.Second)
			}
			return full
		})
		return took, err
	})
	if yes != room {
		t.Errorf("%d of %d took from a bucket of %d", yes, many, room)
	}
}
