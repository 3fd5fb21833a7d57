package scrub

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

// member is a text as a member of gzip with such flags, and what they announce in front of it.
func member(t *testing.T, flags byte, before, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	out.Write([]byte{0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255})
	out.WriteString(before)
	w, err := flate.NewWriter(&out, 6)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	sum := binary.LittleEndian.AppendUint32(out.Bytes(), crc32.ChecksumIEEE([]byte(text)))
	return binary.LittleEndian.AppendUint32(sum, uint32(len(text)))
}

// Whatever a head of gzip has that some client reads over, what is behind it is decoded; what
// is cut short, followed by something else or wrong in its sum is found.
func TestMembersOfGzip(t *testing.T) {
	long := strings.Repeat("n", 70<<10) + "\x00"
	text := strings.Repeat("rice, seaweed. ", 3000)
	other := member(t, 0, "", text)
	other[2] = 7 // another way to compress, of which RFC 1952 knows none
	if got, _, err := asked(t, "gzip", other); err == nil {
		t.Errorf("what is not of deflate: %d bytes", len(got))
	}
	for name, c := range map[string]struct {
		flags  byte
		before string
	}{
		"nothing":  {},
		"name":     {1 << 3, long},
		"comment":  {1 << 4, long},
		"all":      {1<<1 | 1<<2 | 1<<3 | 1<<4, "\x03\x00abcname\x00" + long + "\x12\x34"},
		"text":     {1, ""},
		"reserved": {1 << 5, ""},
	} {
		first, empty := member(t, c.flags, c.before, text), member(t, 0, "", "")
		for what, body := range map[string][]byte{"alone": first, "of several": bytes.Join([][]byte{empty, first, empty, first}, nil)} {
			want := strings.Repeat(text, bytes.Count(body, first))
			got, _, err := asked(t, "gzip", body)
			if err != nil || string(got) != want {
				t.Errorf("%s %s: %d bytes of %d, %v", name, what, len(got), len(want), err)
			}
			for _, cut := range []int{1, 7, 8, 9, len(first) - 3, len(first) - 11 - len(c.before)} {
				if _, _, err := asked(t, "gzip", body[:len(body)-cut]); err == nil {
					t.Errorf("%s %s: without the last %d bytes it decodes", name, what, cut)
				}
			}
			for _, at := range []int{1, 8} {
				wrong := bytes.Clone(body)
				wrong[len(wrong)-at] ^= 1
				if got, _, err := asked(t, "gzip", wrong); err == nil || string(got) != want {
					t.Errorf("%s %s, wrong at %d from its end: %d bytes, %v", name, what, at, len(got), err)
				}
			}
			if got, _, err := asked(t, "gzip", append(bytes.Clone(body), "and something else"...)); err == nil || string(got) != want {
				t.Errorf("%s %s, with something behind it: %d bytes, %v", name, what, len(got), err)
			}
		}
	}
}
