package scrub

import (
	"bytes"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Each coding decodes, stops one byte behind the limit, and says when a body is cut
// short or is something else.
func TestBodiesAreDecodedUpToALimit(t *testing.T) {
	text := strings.Repeat("rice, seaweed. ", 1000)
	for name, writer := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":         func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"x-gzip":       func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"deflate":      func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
		"deflate bare": func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 6) },
		"br":           func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil },
		"zstd":         func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		var packed bytes.Buffer
		w, err := writer(&packed)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		coding, _, _ := strings.Cut(name, " ")
		decode := DecoderOf(coding)
		if got, err := decode.Whole(packed.Bytes(), len(text)); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if got, err := decode.Whole(packed.Bytes(), 100); err != nil || string(got) != text[:101] {
			t.Errorf("%s with a limit of 100: %d bytes, %v", name, len(got), err)
		}
		for what, body := range map[string][]byte{"cut short": packed.Bytes()[:packed.Len()*2/3], "text": []byte("plain text, and no more")} {
			if _, err := decode.Whole(body, len(text)); err == nil {
				t.Errorf("%s that is %s was decoded", name, what)
			}
		}
	}
	if DecoderOf("gzip,br") != nil || DecoderOf("compress") != nil || DecoderOf("") != nil {
		t.Error("there is a decoder of what is not known")
	}
}

// A block of zstd that names one byte and how often it stands there is as long as that byte,
// whatever comes behind it (RFC 8878 section 3.1.1.2.2).
func TestARunOfZstdIsOneByte(t *testing.T) {
	run := func(c byte) []byte { return []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 5<<3 | 1<<1 | 1, 0, 0, c} }
	for name, decode := range map[string]Decoder{"decoder": DecoderOf("zstd"), "searcher": SearcherOf("zstd")} {
		if got, err := decode.Whole(append(run('a'), run('b')...), 100); err != nil || string(got) != "aaaaabbbbb" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
