package rest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// dense returns so many bytes of a text that does not pack well, and in which no credential
// begins.
func dense(n int) string {
	random, letters := rand.New(rand.NewPCG(1, 2)), honest(35)
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// lenient is a text in encodings that many clients read, and a strict decoder does not.
func lenient(t *testing.T, text string) map[string]string {
	t.Helper()
	named := func(edit func(*gzip.Writer)) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		edit(w)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.String()
	}
	reserved := []byte(servicestest.Gzip(text))
	reserved[3] |= 1 << 5
	encoder, err := zstd.NewWriter(nil, zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	frame := encoder.EncodeAll([]byte(text), nil)
	if frame[4]>>6 != 2 {
		t.Fatalf("the head of zstd is %x", frame[:10])
	}
	saying := func(size uint32) string {
		return string(frame[:6]) + string(binary.LittleEndian.AppendUint32(nil, size)) + string(frame[10:])
	}
	end := len(frame) - 1
	return map[string]string{
		"gzip long name":    named(func(w *gzip.Writer) { w.Name = strings.Repeat("n", 300<<10) }),
		"gzip long comment": named(func(w *gzip.Writer) { w.Comment = strings.Repeat("c", 512) }),
		"gzip reserved":     string(reserved),
		"zstd sum":          string(frame[:end]) + string(frame[end]^1),
		"zstd too short":    saying(9),
		"zstd too long":     saying(9 << 20),
	}
}

// What clients read although it is not as it should be is searched like anything else.
func TestWhatClientsReadIsSearched(t *testing.T) {
	clean, bad := lenient(t, dense(150<<10)), lenient(t, dense(150<<10)+canary)
	for at := range 3 { // it begins in a block of zstd and ends in the next, or stands at its end
		for name, body := range lenient(t, dense(128<<10-at*len(canary)/2)+canary+honest(40<<10)) {
			bad[name+strings.Repeat(" ", at+1)+"at a border"] = body
		}
	}
	for _, strict := range []bool{false, true} {
		check := func(name, body string) (int, *runtime.Error) {
			coding, _, _ := strings.Cut(name, " ")
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, body, false)}}, func(o *rest.Options) { o.ScrubStrict = strict })
			answer, result, err := r.do(t, r.call("GET", "/coded"))
			if result.Unscanned {
				t.Errorf("%s, strict %v: recorded as unscanned", name, strict)
			}
			if coding == "zstd" && err != nil {
				d, _ := zstd.NewReader(strings.NewReader(answer.Body), zstd.IgnoreChecksum(true))
				text, _ := io.ReadAll(d)
				d.Close()
				if strings.Contains(string(text), canary[:1]) {
					t.Errorf("%s, strict %v: %q left", name, strict, text[max(0, len(text)-len(canary)):])
				}
			}
			return len(answer.Body), runtime.AsError(err)
		}
		for name, body := range clean {
			if n, err := check(name, body); err != nil || n != len(body) {
				t.Errorf("%s, strict %v: %d of %d bytes left, %v", name, strict, n, len(body), err)
			}
		}
		for name, body := range bad {
			if n, err := check(name, body); err == nil || err.Reason != runtime.ReasonReflectedSecret || n == len(body) {
				t.Errorf("%s, strict %v: %d of %d bytes left, %v", name, strict, n, len(body), err)
			}
		}
	}
}

// A credential in the name of gzip is found also where so much of the name has come before it
// that some of that has left.
func TestReflectedFarBehindInTheHeadOfGzip(t *testing.T) {
	for _, before := range []int{256<<10 - 10 - len(canary)/2, 256<<10 + 6<<10, 272<<10 - 20, 300 << 10} {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Name = strings.Repeat("n", before) + canary + strings.Repeat("n", 100<<10)
		_, _ = io.WriteString(w, "nothing here")
		_ = w.Close()
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded("gzip", b.String(), false)}})
		answer, _, err := r.do(t, r.call("GET", "/coded"))
		if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonReflectedSecret || strings.Contains(answer.Body, canary[:1]) {
			t.Errorf("behind %d bytes: %d bytes left, %v", before, len(answer.Body), err)
		}
	}
}
