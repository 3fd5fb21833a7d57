package proxy

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Some clients ask a proxy for https in a way that no proxy takes: with TLS at once, or the
// URL in a request. Both stay refused, and the trail says what it was, not that HTTP is broken.
func TestHTTPSWithoutCONNECT(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		t.Run(string(engine), func(t *testing.T) { unconnected(t, engine) })
	}
	if e := notAMethod(0x17, false); e.Reason != "" {
		t.Errorf("what is no handshake has the reason %q", e.Reason)
	}
}

func unconnected(t *testing.T, engine Engine) {
	r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
	for request, said := range map[string]string{
		"\x16\x03\x01\x02\x00\x01\x00": "TLS to the proxy itself, without CONNECT",
		"GET https://api.good.test/repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n": "https goes through CONNECT",
	} {
		c := r.dial()
		c.send(request)
		c.refused(400, runtime.CodeInvalidInput)
		if rec := r.outcome(); rec.Err == nil || rec.Err.Reason != runtime.ReasonWithoutConnect || !strings.Contains(rec.Err.Msg, said) {
			t.Errorf("%q: recorded %+v", request, rec.Err)
		}
		_ = c.Close()
	}
	inside := r.open("api.good.test:443") // where TLS within TLS is no HTTP
	inside.send("\x16\x03\x01\x02\x00\x01\x00")
	if p := inside.refused(400, runtime.CodeInvalidInput); p.Reason != "" {
		t.Errorf("inside a tunnel the reason is %q", p.Reason)
	}
}
