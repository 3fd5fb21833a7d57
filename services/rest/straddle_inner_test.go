package rest

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// scanned is what leaves of a body that comes in two parts.
func scanned(m *scrub.Matcher, coding string, parts ...[]byte) (*runtimetest.Responder, error) {
	out := &runtimetest.Responder{}
	_ = out.Start(200, nil)
	x := &exchange{b: &Backend{}, lines: &lines{o: &Options{}}, message: &message{scrub: m, authority: "a.test:443"}, out: out, result: &runtime.Result{}}
	return out, x.copyScanned(context.Background(), io.MultiReader(bytes.NewReader(parts[0]), bytes.NewReader(parts[1])), coding)
}

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
			out, err := scanned(m, coding, packed.Bytes()[:at], packed.Bytes()[at:])
			var e *runtime.Error
			if !errors.As(err, &e) || e.Reason != runtime.ReasonReflectedSecret || len(out.Answer().Body) >= packed.Len()-30 {
				t.Errorf("%s, with %d bytes by themselves: %d of %d left, %v", coding, behind, len(out.Answer().Body), packed.Len(), err)
			}
		}
	}
}

// Text that cannot be packed stands in a block as it is, and may end like a flush: what was
// decoded before it, and is given later, does not leave for that.
func TestTextThatLooksLikeAFlushIsNone(t *testing.T) {
	const secret = "kbcanary-7f3a9c"
	for _, behind := range []string{"abcd", "", "a", strings.Repeat("x", 40<<10)} {
		var packed bytes.Buffer
		w, _ := flate.NewWriter(&packed, flate.BestCompression)
		for _, text := range []string{"hello\n", "some text " + secret + "\n"} {
			_, _ = io.WriteString(w, text)
			_ = w.Flush()
		}
		text := behind + "\x00\x00\xff\xff" // in the place of the second flush's empty block
		size := uint16(len(text))
		body := binary.LittleEndian.AppendUint16(packed.Bytes()[:packed.Len()-4], size)
		body = append(binary.LittleEndian.AppendUint16(body, ^size), text...)
		out, err := scanned(scrub.New(secret, "", ""), "deflate", body, []byte{1, 0, 0, 0xff, 0xff})
		var e *runtime.Error
		if !errors.As(err, &e) || e.Reason != runtime.ReasonReflectedSecret {
			t.Errorf("behind %d bytes: %v", len(behind), err)
		}
		if left, _ := io.ReadAll(flate.NewReader(strings.NewReader(out.Answer().Body))); strings.Contains(string(left), "kb") {
			t.Errorf("behind %d bytes %q left", len(behind), left)
		}
	}
}
