package classifier

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const inParts = "multipart/related; boundary=b"

// part is a body of one part of a name.
func part(name, text string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n--b--\r\n"
}

// passed is what a body in gzip lets through beside the word acl.
func passed(body io.Reader) (string, error) {
	watch := func() *OverrideWatch { return WatchOverride([]string{inParts}, "acl") }
	got, err := io.ReadAll(WatchPacked(body, watch(), watch()))
	return string(got), err
}

// Parts in gzip pass as they are, however long; those that say a word again, packed or to who
// does not unpack them, and what two readers could unpack otherwise, never end.
func TestPartsInGzipAreLookedAtAsTheyPass(t *testing.T) {
	noise := make([]byte, 300<<10)
	for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(random.Uint32())
	}
	plain := packed(t, part("file", "some text"), gzip.Header{})
	for name, c := range map[string]struct{ body, reason string }{
		"short":             {plain, ""},
		"long":              {packed(t, part("file", string(noise)+strings.Repeat("a line of a log\n", 1<<17)), gzip.Header{}), ""},
		"nothing":           {packed(t, "", gzip.Header{}), ""},
		"the word":          {packed(t, part("acl", "x"), gzip.Header{}), reasonAmbiguousParameter},
		"the word, far":     {packed(t, part("file", string(noise))+part("acl", "x"), gzip.Header{}), reasonAmbiguousParameter},
		"a method":          {packed(t, part("_method", "DELETE"), gzip.Header{}), reasonMethodOverride},
		"the word, written": {spelling(part("acl", "x")), reasonAmbiguousParameter},
		"none, written":     {spelling(part("file", "x")), ""},
		"no gzip":           {part("file", "x"), reasonUnsupportedMedia},
		"empty":             {"", reasonUnsupportedMedia},
		"with a name":       {packed(t, part("file", "x"), gzip.Header{Name: "x"}), reasonUnsupportedMedia},
		"a second member":   {plain + plain, reasonUnsupportedMedia},
		"bytes behind":      {plain + "\x00", reasonUnsupportedMedia},
		"cut short":         {plain[:len(plain)-1], reasonUnsupportedMedia},
		"without an end":    {plain[:10] + "\x00\x05\x00\xfa\xffhello", reasonUnsupportedMedia},
		"with nothing":      {plain[:10] + strings.Repeat("\x00\x00\x00\xff\xff", 1<<20), reasonUnsupportedMedia},
		"a bomb":            {packed(t, part("file", strings.Repeat("\x00", 64<<20)), gzip.Header{}), reasonBodyTooLarge},
	} {
		for _, slow := range []bool{false, true} {
			if slow && len(c.body) > 1<<20 {
				continue
			}
			var body io.Reader = strings.NewReader(c.body)
			if slow {
				body = iotest.OneByteReader(body)
			}
			got, err := passed(body)
			var e *Error
			switch {
			case c.reason == "" && (err != nil || got != c.body):
				t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(c.body), err)
			case c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason || len(got) >= len(c.body) && c.body != "" || !strings.HasPrefix(c.body, got)):
				t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(c.body), err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := passed(io.MultiReader(strings.NewReader(plain[:20]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("of a body that breaks off: %v", err)
	}
}

// What passes whole is what came, in whatever pieces, and is what [Unpack] would have taken.
func FuzzPackedBody(f *testing.F) {
	for _, text := range []string{"", part("file", "x"), part("acl", "x"), strings.Repeat(part("file", "x"), 500)} {
		f.Add([]byte(spelling(text)), 3)
		var b strings.Builder
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		f.Add([]byte(b.String()), 1000)
		f.Add([]byte(b.String()+"x"), 1)
	}
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		got, err := passed(inSizes{strings.NewReader(string(body)), max(1, size&0xffff)})
		if !strings.HasPrefix(string(body), got) || (err == nil) != (got == string(body)) && len(body) > 0 {
			t.Fatalf("%d of %d bytes passed: %v", len(got), len(body), err)
		}
		_, whole := Unpack(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, body, 64<<20)
		if err == nil && whole != nil {
			t.Fatalf("passed, and is not unpacked: %v", whole)
		}
	})
}

// inSizes gives pieces of one size.
type inSizes struct {
	io.Reader
	size int
}

func (r inSizes) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.size)]) }

// What passes costs no more memory than a window, and a little time.
func TestLongPartsInGzipAreNotKept(t *testing.T) {
	from, to := io.Pipe()
	go func() {
		w, _ := gzip.NewWriterLevel(to, gzip.NoCompression)
		piece := []byte(strings.Repeat("a line\r\n--", 8<<10))
		for range 512 {
			_, _ = w.Write(piece)
		}
		_ = to.CloseWithError(w.Close())
	}()
	begun, watch := time.Now(), WatchOverride([]string{inParts}, "acl")
	body := WatchPacked(from, watch, WatchOverride([]string{inParts}, "acl"))
	n, err := io.Copy(io.Discard, body)
	if err != nil || n < 40<<20 || cap(body.held) > 128<<10 || time.Since(begun) > 20*time.Second {
		t.Errorf("%d bytes, %d kept, in %v: %v", n, cap(body.held), time.Since(begun), err)
	}
}

func TestWhichBodiesAreUnpackedAsTheyPass(t *testing.T) {
	for _, c := range []struct {
		types, codings []string
		want           bool
	}{
		{[]string{inParts}, []string{"gzip"}, true},
		{[]string{"Multipart/Form-Data; boundary=b"}, []string{" X-GZip"}, true},
		{[]string{inParts + "; charset=utf-16"}, []string{"gzip"}, false},
		{[]string{inParts, inParts}, []string{"gzip"}, false},
		{[]string{inParts}, []string{"gzip", "gzip"}, false},
		{[]string{inParts}, []string{"gzip, identity"}, false},
		{[]string{inParts}, []string{"br"}, false},
		{[]string{inParts}, nil, false},
		{[]string{"application/json"}, []string{"gzip"}, false},
		{nil, []string{"gzip"}, false},
	} {
		if got := PackedParts(http.Header{"Content-Type": c.types, "Content-Encoding": c.codings}); got != c.want {
			t.Errorf("%q %q: %v", c.types, c.codings, got)
		}
	}
}

// spelling is a gzip that spells a text as it is written, and has another one in it: its code
// (RFC 1951 section 3.2.7) gives each letter eight bits, in another order.
func spelling(text string) string {
	var out []byte
	n := 0
	put := func(value uint, width int) { // the lowest bit first
		for range width {
			if n%8 == 0 {
				out = append(out, 0)
			}
			out[len(out)-1] |= byte(value&1) << (n % 8)
			value, n = value>>1, n+1
		}
	}
	put(0b101, 3)                                        // the last block, of a code of its own
	put(0, 5)                                            // for 257 letters,
	put(0, 5)                                            // and one distance,
	put(10, 4)                                           // whose lengths are told by 14 lengths:
	for _, length := range []uint{0, 0, 0, 2, 1, 0, 2} { // of 0, 8 and 9
		put(length, 3)
	}
	put(0, 21)
	put(0, 255)    // letters have 8 bits,
	put(0b1111, 4) // the last one and the end have 9,
	put(0b01, 2)   // the distance has none
	out = append(out, text...)
	n += 8 * len(text)
	put(0b111111111, 9)
	plain := make([]byte, len(text))
	for i := range plain {
		plain[i] = bits.Reverse8(text[i])
	}
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(plain))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(plain)))
	return plainGzip + "\x00\x00\x00\x00\x00\xff" + string(out)
}
