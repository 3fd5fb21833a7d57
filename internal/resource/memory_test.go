package resource

import "testing"

// Memory goes back once after the start and once after work, and not while there
// is some.
func TestAQuietProcessGivesMemoryBackOnce(t *testing.T) {
	var i Idleness
	total := uint64(0)
	looks := func(n int, each uint64) (given int) {
		for range n {
			total += each
			if i.due(total) {
				given++
			}
		}
		return given
	}
	if n := looks(firstLooks-1, 100<<10); n != 0 {
		t.Errorf("given back %d times before the start was over", n)
	}
	if n := looks(100, 100<<10); n != 1 {
		t.Errorf("given back %d times after the start", n)
	}
	if n := looks(100, 2<<20); n != 0 {
		t.Errorf("given back %d times under load", n)
	}
	if n := looks(idleLooks-1, 100<<10); n != 0 {
		t.Errorf("given back %d times too early", n)
	}
	if n := looks(1000, 1<<10); n != 1 {
		t.Errorf("given back %d times when quiet", n)
	}
	looks(1, 2<<20) // too little to be worth it
	if n := looks(1000, 1<<10); n != 0 {
		t.Errorf("given back %d times for nothing", n)
	}
	looks(10, 2<<20)
	if n := looks(1000, 1<<10); n != 1 {
		t.Errorf("given back %d times after more work", n)
	}
}
