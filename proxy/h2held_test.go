package proxy

import (
	"context"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// The head of a small answer leaves with the first bytes of its body where these come at once,
// and by itself where they do not: its client may wait for just that.
func TestAHeadDoesNotWaitForABodyThatTakesItsTime(t *testing.T) {
	heard := make(chan struct{})
	r := newRig(t, func(_ *Options, st *stages) {
		st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
			err := out.Start(200, http.Header{"Content-Length": {"2"}})
			<-heard
			if err == nil {
				_, err = out.Write([]byte("ok"))
			}
			return runtime.Result{Status: 200}, err
		}
	})
	c := r.rawH2("api.good.test:443")
	id := c.Open(true, goodHead...)
	status, _, _, err := c.wait(id)
	close(heard)
	if status != "200" || err != nil {
		t.Fatal(status, err)
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamID == id {
			if string(data.Data()) != "ok" {
				t.Errorf("%q", data.Data())
			}
			return
		}
	}
}
