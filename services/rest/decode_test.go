package rest_test

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// packed is a text in a content coding.
func packed(t *testing.T, coding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		return []byte(servicestest.Gzip(text))
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		made, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = made
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}

func encodedAs(coding string) http.Header { return http.Header{"Content-Encoding": {coding}} }

// Whoever reads an answer gets it without its coding, whichever it is, but for what
// was not searched for the credential: several codings at once, and unknown ones.
func TestAnswersThatAreReadAreDecoded(t *testing.T) {
	const text = `{"message":"rice and seaweed"}`
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		got, err := rest.Decoded(encodedAs(" "+strings.ToUpper(coding)), packed(t, coding, text), 100)
		if err != nil || string(got) != text {
			t.Errorf("%s: %q %v", coding, got, err)
		}
		if got, err := rest.Decoded(encodedAs(coding), nil, 100); err != nil || got != nil {
			t.Errorf("%s of nothing: %q %v", coding, got, err)
		}
		if got, err := rest.Decoded(encodedAs(coding), []byte(text), 100); err != nil || string(got) != text {
			t.Errorf("%s that is none: %q %v", coding, got, err)
		}
	}
	twice := packed(t, "gzip", string(packed(t, "gzip", text)))
	for coding, body := range map[string][]byte{"gzip, gzip": twice, "compress": packed(t, "gzip", text), "identity": []byte(text)} {
		if got, err := rest.Decoded(encodedAs(coding), body, 100); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s is not as it was: %q %v", coding, got, err)
		}
	}
}

// A small answer that unpacks to a large one stops at the limit, and half of one is
// no answer.
func TestDecodingStopsAtTheLimit(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		bomb := packed(t, coding, strings.Repeat("x", 8<<20))
		if _, err := rest.Decoded(encodedAs(coding), bomb, 1<<20); !errors.Is(err, runtime.ErrBodyTooLarge) {
			t.Errorf("%s: %v", coding, err)
		}
		whole := packed(t, coding, strings.Repeat("rice, seaweed. ", 1000))
		got, err := rest.Decoded(encodedAs(coding), whole[:len(whole)-len(whole)/3], 1<<20)
		if runtime.CodeOf(err) != runtime.CodeUpstream || got != nil {
			t.Errorf("%s that is cut short: %d bytes, %v", coding, len(got), err)
		}
	}
}

// An answer without content has nothing to be searched, whatever encoding it names.
func TestAnswersWithoutContentAreScanned(t *testing.T) {
	for _, coding := range []string{"br", "gzip", "zstd", "unknown"} {
		r := newRig(t, handled(0, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			w.WriteHeader(http.StatusNotModified)
		}))
		r.proto = "HTTP/2.0"
		if _, result := r.must(t, r.call("GET", "/items/1")); result.Unscanned {
			t.Errorf("%s: recorded as not scanned", coding)
		}
	}
}
