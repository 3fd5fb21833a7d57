package jq

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// What others take while an expression runs is not its own: it is tried again, and where it
// fails nobody is told that it is wrong.
func TestOthersTakeTheMemory(t *testing.T) {
	const long = "reduce range(60000) as $i (0; . + $i)"
	var looks atomic.Int64
	grown := func(times int64) func() uint64 {
		looks.Store(0)
		return func() uint64 { return uint64(min(looks.Add(1), times)) * (filterMemory + 1) }
	}
	if out, err := within(long, []byte("1"), grown(2)); err != nil || string(out) != "1799970000" {
		t.Errorf("%s %v", out, err)
	}
	_, err := within(long, []byte("1"), grown(1000))
	if !errors.Is(err, ErrNoRoom) || runtime.CodeOf(err) != runtime.CodeInvalidInput || looks.Load() != 4 {
		t.Errorf("after %d looks: %v", looks.Load(), err)
	}
	if len(again) != 0 {
		t.Error("nobody else can try again")
	}
}
