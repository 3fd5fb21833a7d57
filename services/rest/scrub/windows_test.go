package scrub

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// asked decodes a body that comes in pieces, and returns what it asked room for.
func asked(t *testing.T, coding string, body []byte) (text []byte, rooms []int64, err error) {
	t.Helper()
	reader, err := DecoderOf(coding)(bufio.NewReader(&drips{bytes.NewReader(body)}), func(n int64) error {
		rooms = append(rooms, n)
		return nil
	})
	if err != nil {
		return nil, rooms, err
	}
	if closer, ok := reader.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	text, err = io.ReadAll(reader)
	return text, rooms, err
}

// drips gives a few bytes at a time.
type drips struct{ src io.Reader }

func (d *drips) Read(p []byte) (int, error) { return d.src.Read(p[:min(len(p), 1000)]) }

// zstdOf is a text as a frame whose length nobody knew when it began.
func zstdOf(t *testing.T, text []byte, o ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, append(o, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(text, []byte("\n")) {
		_, _ = w.Write(part)
		if len(text) < 1<<20 {
			_ = w.Flush()
		}
	}
	_ = w.Close()
	return out.Bytes()
}

// farBack is a text that says at its end what it said at its beginning, so far back.
func farBack(size int) []byte {
	random, text := rand.New(rand.NewPCG(1, uint64(size))), make([]byte, size)
	for i := range text {
		text[i] = "0123456789abcdef"[random.IntN(16)]
	}
	copy(text[size-size/8:], text[:size/8])
	return text
}

// Whatever the window of a frame, and wherever it refers to, what comes of it is what it
// was made of, also when it begins in a narrow window and is decoded again.
func TestFramesDecodeInTheWindowTheyNeed(t *testing.T) {
	skip := []byte("\x51\x2a\x4d\x18\x04\x00\x00\x00abcd")
	short := []byte("rice\nand\nseaweed\n")
	plain := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), nil) }
	wide := zstd.WithWindowSize(zstdWindow)
	var far, farText []byte
	for _, size := range []int{100 << 10, 129 << 10, 200 << 10, 300 << 10, 2 << 20} {
		farText = append(farText, farBack(size)...)
		far = append(far, zstdOf(t, farBack(size), wide, zstd.WithEncoderLevel(zstd.SpeedBestCompression))...)
	}
	encoder, _ := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	single := encoder.EncodeAll(farBack(1<<20), nil)
	events := bytes.Repeat([]byte("data: an event, and another one\n\n"), 9000)
	for name, c := range map[string]struct{ body, text []byte }{
		"short":         {zstdOf(t, short, wide), plain(short)},
		"events":        {zstdOf(t, events, wide), plain(events)},
		"far back":      {far, farText},
		"one segment":   {single, farBack(1 << 20)},
		"many and skip": {bytes.Join([][]byte{skip, zstdOf(t, short), skip, single, zstdOf(t, short, wide), far, skip}, nil), bytes.Join([][]byte{plain(short), farBack(1 << 20), plain(short), farText}, nil)},
		"only skipped":  {skip, nil},
		"nothing":       {nil, nil},
	} {
		text, rooms, err := asked(t, "zstd", c.body)
		if err != nil || !bytes.Equal(text, c.text) {
			t.Errorf("%s: %d bytes of %d, %v; room for %d", name, len(text), len(c.text), err, rooms)
		}
		if name == "short" && (len(rooms) != 1 || rooms[0] > 2<<20) {
			t.Errorf("a short frame asks room for %d", rooms)
		}
		for i, n := range rooms {
			if n > zstdNeeds(zstdWindow) || i > 0 && n <= rooms[i-1] {
				t.Errorf("%s: room for %d", name, rooms)
			}
		}
		if len(c.body) > len(skip) {
			if _, _, err := asked(t, "zstd", c.body[:len(c.body)-1]); err == nil {
				t.Errorf("%s, cut short, was decoded", name)
			}
		}
	}
}

// A frame that is damaged is, in whatever window; one with a larger window than may be
// asks for no room.
func TestDamagedFramesAreFound(t *testing.T) {
	body := zstdOf(t, farBack(300<<10), zstd.WithWindowSize(zstdWindow))
	for _, at := range []int{len(body) / 2, len(body) - 1} {
		damaged := bytes.Clone(body)
		damaged[at] ^= 0x55
		if _, _, err := asked(t, "zstd", damaged); err == nil {
			t.Errorf("damaged at %d of %d, and it decodes", at, len(body))
		}
	}
	for name, head := range map[string]string{
		"window":  "\x28\xb5\x2f\xfd\x00\x69\x03\x00\x10x",
		"segment": "\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x10x",
	} {
		if _, rooms, err := asked(t, "zstd", []byte(head)); err == nil || len(rooms) > 0 {
			t.Errorf("too large a %s: %v, room for %d", name, err, rooms)
		}
	}
}

// Who gets no room decodes nothing.
func TestWithoutRoomNothingIsDecoded(t *testing.T) {
	none := errors.New("no room")
	for _, coding := range []string{"zstd", "br"} {
		body := "\x28\xb5\x2f\xfd\x00\x68\x03\x00\x10x"
		if coding == "br" {
			body = "\x0b\x02\x80rice\x03"
		}
		reader, err := DecoderOf(coding)(bufio.NewReader(strings.NewReader(body)), func(int64) error { return none })
		if err == nil {
			_, err = reader.Read(make([]byte, 10))
		}
		if !errors.Is(err, none) {
			t.Errorf("%s: %v", coding, err)
		}
	}
}

// A body of brotli asks for the window that it names, and for less when its only block is
// shorter.
func TestBrotliAsksForItsWindow(t *testing.T) {
	for _, lgwin := range []int{10, 11, 16, 17, 18, 22, 24} {
		for _, size := range []int{1, 700, 5000, 300_000} {
			for _, flush := range []bool{false, true} {
				var out bytes.Buffer
				w := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: 5, LGWin: lgwin})
				text := farBack(size)
				_, _ = w.Write(text)
				if flush {
					_ = w.Flush()
				}
				_ = w.Close()
				got, rooms, err := asked(t, "br", out.Bytes())
				if err != nil || !bytes.Equal(got, text) || len(rooms) != 1 {
					t.Fatalf("window of %d bits, %d bytes: %d bytes, %v, room for %d", lgwin, size, len(got), err, rooms)
				}
				most, least := int64(1)<<lgwin, min(int64(1)<<lgwin, int64(size))
				if n := rooms[0] - brotliTables; n < least || n > most || !flush && size > 1 && size <= 5000 && n > max(int64(2*size), 1<<10) {
					t.Errorf("window of %d bits, %d bytes, flushed: %v: room for %d", lgwin, size, flush, n)
				}
			}
		}
	}
}

// Who searches gets all of a frame whose length or sum is wrong, or whose sum is missing, as
// clients do; who reads one is told.
func TestFramesThatSayWrongThingsOfThemselvesAreSearched(t *testing.T) {
	text := farBack(300 << 10)
	encoder, err := zstd.NewWriter(nil, zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	body := encoder.EncodeAll(text, nil)
	if body[4]>>6 != 2 || body[4]&4 == 0 {
		t.Fatalf("the head is %x", body[:10])
	}
	saying := func(size uint32) []byte {
		return append(binary.LittleEndian.AppendUint32(bytes.Clone(body[:6]), size), body[10:]...)
	}
	sum := append(bytes.Clone(body[:len(body)-1]), body[len(body)-1]^1)
	for name, c := range map[string]struct {
		body, text []byte
		end        error
	}{
		"wrong sum":      {body: sum, text: text},
		"too short":      {body: saying(5), text: text},
		"too long":       {body: saying(5 << 20), text: text},
		"half a sum":     {body: body[:len(body)-2], text: text, end: io.ErrUnexpectedEOF},
		"no sum":         {body: body[:len(body)-4], text: text, end: io.ErrUnexpectedEOF},
		"one behind all": {body: bytes.Join([][]byte{sum, saying(0), body}, nil), text: bytes.Repeat(text, 3)},
	} {
		reader, err := SearcherOf("zstd")(bufio.NewReader(&drips{bytes.NewReader(c.body)}), anyRoom)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(reader)
		_ = reader.(io.Closer).Close()
		if !errors.Is(err, c.end) || !bytes.Equal(got, c.text) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(c.text), err)
		}
		if _, err := DecoderOf("zstd").Whole(c.body, 1<<20); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// The window of a frame that says only its length is the next larger one that a head can name.
func TestAHeadNamesTheLeastWindowThatIsLargeEnough(t *testing.T) {
	for size, want := range map[int64]int64{1: 1 << 10, 1 << 10: 1 << 10, 1<<10 + 1: 1152, 1 << 20: 1 << 20, 1<<20 + 1: 1<<20 + 1<<17, 15 << 19: 15 << 19, 15<<19 + 1: zstdWindow, zstdWindow: zstdWindow} {
		head, window := bared([]byte("\x28\xb5\x2f\xfd\x00\x00"), size)
		var h zstd.Header
		if err := h.Decode(append(head, "\x01\x00\x00"...)); err != nil || window != want || h.WindowSize != uint64(want) {
			t.Errorf("%d bytes: a window of %d, and the head names %d, %v", size, window, h.WindowSize, err)
		}
	}
}
