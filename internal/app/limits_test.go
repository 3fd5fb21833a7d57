package app

import "testing"

// Whatever the limit, its shares do not exceed it, and files have one too.
func TestDescriptorsAreSharedOut_CR013(t *testing.T) {
	for _, limit := range []int{16, 64, 256, 1024, 4096, 20000, 1 << 20} {
		d := share(uint64(limit))
		taken := d.tunnels + d.visitors + d.queue + d.requests + d.idle
		if taken+min(128, limit/4) > limit && limit >= 64 {
			t.Errorf("%d: %+v leaves %d for files", limit, d, limit-taken)
		}
		if d.tunnels < limit/2 || min(d.visitors, d.queue, d.requests, d.idle) < 1 {
			t.Errorf("%d: %+v", limit, d)
		}
	}
	if d := share(20000); d.tunnels != 18000 { // 9,000 raw ones
		t.Errorf("%+v", d)
	}
	if share(0) != (descriptors{}) || share(1<<63) != (descriptors{}) {
		t.Error("where there is no limit there is one")
	}
}
