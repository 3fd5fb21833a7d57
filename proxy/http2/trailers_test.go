//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// Trailers have the limit that they have over HTTP/1.1, where each of them is a line.
func TestTrailersAreLimited(t *testing.T) {
	got := make(chan error, 1)
	r := newRig(t, func(st *http2.Stream) {
		_, err := io.ReadAll(st)
		got <- err
		_ = st.Start(204, nil, nil, http2.Nothing)
	}, func(o *http2.Options) { o.HeadBytes = 128 << 10 })
	c := r.client()
	many := make([]string, 2000)
	for i := range many {
		many[i] = "x-sum 789" // ten bytes as a line
	}
	for name, test := range map[string]struct {
		fields []string
		good   bool
	}{
		"long":             {[]string{"x-sum " + strings.Repeat("7", 16<<10-len("x-sum: "))}, true},
		"too long":         {[]string{"x-sum " + strings.Repeat("7", 16<<10-len("x-sum: ")+1)}, false},
		"many":             {many[:1600], true},
		"too many":         {many, false},
		"too long, by far": {[]string{"x-sum " + strings.Repeat("7", 60<<10), "x-sum " + strings.Repeat("7", 60<<10)}, false},
	} {
		id := c.open(false, "/")
		_ = c.WriteData(id, false, []byte("body"))
		_ = c.Send(id, true, c.Block(test.fields...))
		if err := <-got; (err == nil) != test.good || err != nil && !errors.Is(err, http2.ErrStream) {
			t.Errorf("%s: %v", name, err)
		}
		if test.good {
			continue
		}
		if code := c.reset(id); code != framing.ErrCodeProtocol {
			t.Errorf("%s: reset with %v", name, code)
		}
	}
}
