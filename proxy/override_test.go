package proxy

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kimbap-run/kimbap/classifier"
)

// A body of HTTP/2 may end in a frame of its own, behind all the bytes that it announced:
// the last of them wait until it is known that nothing more belongs to them.
func TestTheLastBytesOfAPassingBodyWaitForItsEnd(t *testing.T) {
	for text, refused := range map[string]bool{"x=1&force": true, "x=1&other": false, "x=1&force=": true} {
		for name, body := range map[string]io.Reader{
			"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			watch := classifier.WatchOverride([]string{"application/x-www-form-urlencoded"}, "force")
			got, err := io.ReadAll(&passingBody{Reader: body, watch: watch, left: int64(len(text))})
			if (err != nil) != refused || (string(got) == text) == refused {
				t.Errorf("%q, %s: %q passed, %v", text, name, got, err)
			}
		}
	}
	broken := io.MultiReader(strings.NewReader("x=1&force"), iotest.ErrReader(io.ErrUnexpectedEOF))
	watch := classifier.WatchOverride([]string{"application/x-www-form-urlencoded"}, "force")
	if got, err := io.ReadAll(&passingBody{Reader: broken, watch: watch, left: 9}); err == nil || len(got) > 0 {
		t.Errorf("of one whose end does not come %q passed, %v", got, err)
	}
}
