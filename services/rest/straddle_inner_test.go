package rest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// The last block of deflate may look like a flush, and the sum behind it may come by itself:
// the text before is searched before any of it leaves.
func TestTheEndOfAnEncodingIsSearchedBeforeItLeaves(t *testing.T) {
	const secret = "kbcanary-7f3a9c"
	text := strings.Repeat("nothing here.\n", 3000) + secret + "\n"
	m := scrub.New(secret, "", "")
	for coding, writer := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	} {
		var packed bytes.Buffer
		w := writer(&packed)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		for behind := range 20 {
			at := packed.Len() - behind
			out := &runtimetest.Responder{}
			_ = out.Start(200, nil)
			x := &exchange{b: &Backend{}, lines: &lines{o: &Options{}}, message: &message{scrub: m, authority: "a.test:443"}, out: out, result: &runtime.Result{}}
			err := x.copyScanned(context.Background(), io.MultiReader(bytes.NewReader(packed.Bytes()[:at]), bytes.NewReader(packed.Bytes()[at:])), coding)
			var e *runtime.Error
			if !errors.As(err, &e) || e.Reason != runtime.ReasonReflectedSecret || len(out.Answer().Body) >= packed.Len()-30 {
				t.Errorf("%s, with %d bytes by themselves: %d of %d left, %v", coding, behind, len(out.Answer().Body), packed.Len(), err)
			}
		}
	}
}
