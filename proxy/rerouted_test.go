package proxy

import (
	"io"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A reload may take the action away while its body comes. The refusal says that none covers
// the request, and names no empty one.
func TestAnActionThatGoesWhileItsBodyIsReadIsMissing(t *testing.T) {
	r := newRig(t, func(_ *Options, st *stages) { st.judge = whenRead })
	asked := make(chan struct{})
	judge := r.stages.judge
	r.stages.judge = func(q runtime.Question) runtime.Verdict {
		v := judge(q)
		if v.NeedBody {
			close(asked)
		}
		return v
	}
	c := r.open("api.good.test:443")
	c.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"a\"")
	<-asked
	r.stages.own(t, "https://api.other.test:443")
	_, _ = io.WriteString(c.Conn, ": true}")
	c.refused(403, runtime.CodeUnknownAction)
	if rec := r.outcome(); rec.Err == nil || rec.Err.Reason != runtime.ReasonUnmatched {
		t.Errorf("recorded %v", rec.Err)
	}
}
