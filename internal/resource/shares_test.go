package resource

import "testing"

// Whatever the limit, its shares do not exceed it, and files have one too.
func TestDescriptorsAreSharedOut_CR013(t *testing.T) {
	for _, limit := range []int{16, 64, 256, 1024, 4096, 20000, 1 << 20} {
		d := Share(uint64(limit))
		taken := d.Tunnels + d.Visitors + d.Queue + d.Requests + d.Idle
		if taken+min(128, limit/4) > limit && limit >= 64 {
			t.Errorf("%d: %+v leaves %d for files", limit, d, limit-taken)
		}
		if d.Tunnels < limit/2 || min(d.Visitors, d.Queue, d.Requests, d.Idle) < 1 {
			t.Errorf("%d: %+v", limit, d)
		}
	}
	if d := Share(20000); d.Tunnels != 18000 { // 9,000 raw ones
		t.Errorf("%+v", d)
	}
	if Share(0) != (Shares{}) || Share(1<<63) != (Shares{}) {
		t.Error("where there is no limit there is one")
	}
}
