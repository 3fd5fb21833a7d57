package http1_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

var (
	chunked = http1.Framing{Chunked: true, Length: -1}
	padded  = http1.Framing{Chunked: true, Padded: true, Length: -1}
	toEnd   = http1.Framing{Length: -1}
)

func long(n int64) http1.Framing { return http1.Framing{Length: n} }

func TestBodiesEndWhereTheyShould(t *testing.T) {
	for _, c := range []struct {
		name    string
		framing http1.Framing
		text    string
		body    string
		rest    string
		err     error
	}{
		{"length", long(5), "hellorest", "hello", "rest", nil},
		{"length of nothing", long(0), "rest", "", "rest", nil},
		{"length, cut", long(5), "hel", "hel", "", io.ErrUnexpectedEOF},
		{"length, nothing came", long(5), "", "", "", io.ErrUnexpectedEOF},
		{"until the end", toEnd, "hello", "hello", "", nil},
		{"until the end, empty", toEnd, "", "", "", nil},
		{"chunks", chunked, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nrest", "hello world", "rest", nil},
		{"no data", chunked, "0\r\n\r\nrest", "", "rest", nil},
		{"extensions", chunked, "5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\nrest", "hello", "rest", nil},
		{"sizes in any case, with zeros", chunked, "00a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\nrest", "01234567890123456789", "rest", nil},
		{"the largest size that is read", chunked, "fffffffffffffff\r\nhel", "hel", "", io.ErrUnexpectedEOF},
		{"data that looks like chunks", chunked, "7\r\n0\r\n\r\nab\r\n0\r\n\r\nrest", "0\r\n\r\nab", "rest", nil},
		{"trailers", chunked, "1\r\nx\r\n0\r\nx-a: 1\r\nX-A:2\r\n\r\nrest", "x", "rest", nil},
		{"blanks behind the sizes of an answer", padded, "5 \r\nhello\r\n6\t \r\n world\r\n1 ;x\r\n!\r\n0  \r\n\r\nrest", "hello world!", "rest", nil},

		{"cut in a size", chunked, "5", "", "", io.ErrUnexpectedEOF},
		{"cut in data", chunked, "5\r\nhel", "hel", "", io.ErrUnexpectedEOF},
		{"cut after data", chunked, "5\r\nhello", "hello", "", io.ErrUnexpectedEOF},
		{"cut after a chunk", chunked, "5\r\nhello\r\n", "hello", "", io.ErrUnexpectedEOF},
		{"cut in the last chunk", chunked, "5\r\nhello\r\n0\r\n", "hello", "", io.ErrUnexpectedEOF},
		{"cut in a trailer", chunked, "0\r\nX-A: 1\r\n", "", "", io.ErrUnexpectedEOF},

		{"a size of 16 digits", chunked, "1000000000000000\r\nhello", "", "", http1.ErrChunks},
		{"a size that overflows to 5", chunked, "10000000000000005\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"zeros without end", chunked, "0000000000000005\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"no size", chunked, "\r\nhello", "", "", http1.ErrChunks},
		{"a sign", chunked, "-5\r\nhello", "", "", http1.ErrChunks},
		{"a plus", chunked, "+5\r\nhello", "", "", http1.ErrChunks},
		{"a prefix", chunked, "0x5\r\nhello", "", "", http1.ErrChunks},
		{"a blank before", chunked, " 5\r\nhello", "", "", http1.ErrChunks},
		{"a blank behind", chunked, "5 \r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"a blank before, in an answer", padded, " 5\r\nhello", "", "", http1.ErrChunks},
		{"only blanks, in an answer", padded, "  \r\nhello", "", "", http1.ErrChunks},
		{"a blank between digits", padded, "5 0\r\nhello", "", "", http1.ErrChunks},
		{"a long line of blanks", padded, "5" + strings.Repeat(" ", 1<<10) + "\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"letters", chunked, "5g\r\nhello", "", "", http1.ErrChunks},
		{"bare LF after a size", chunked, "5\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"bare LF after data", chunked, "5\r\nhello\n0\r\n\r\n", "hello", "", http1.ErrChunks},
		{"more data than the size", chunked, "5\r\nhello!\r\n0\r\n\r\n", "hello", "", http1.ErrChunks},
		{"bare CR in an extension", chunked, "5;a\rb\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"LF in an extension", chunked, "5;a\nb\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"a NUL in an extension", chunked, "5;a\x00\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"a long extension", chunked, "5;" + strings.Repeat("x", 1<<10) + "\r\nhello\r\n0\r\n\r\n", "", "", http1.ErrChunks},
		{"a line without end", chunked, strings.Repeat("0", 8<<10), "", "", http1.ErrChunks},
		{"bare LF in trailers", chunked, "0\r\nX: 1\n\r\n", "", "", http1.ErrChunks},
		{"bare LF at the end", chunked, "0\r\n\n", "", "", http1.ErrChunks},
		{"no trailer field", chunked, "0\r\nGET / HTTP/1.1\r\n\r\n", "", "", http1.ErrChunks},
		{"a folded trailer", chunked, "0\r\nX: 1\r\n 2\r\n\r\n", "", "", http1.ErrChunks},
		{"a folded trailer with a colon", chunked, "0\r\nX: 1\r\n\tY: 2\r\n\r\n", "", "", http1.ErrChunks},
		{"a blank in a trailer's name", chunked, "0\r\nX : 1\r\n\r\n", "", "", http1.ErrChunks},
		{"a trailer without a name", chunked, "0\r\n: 1\r\n\r\n", "", "", http1.ErrChunks},
		{"a request behind a trailer", chunked, "0\r\nGET http://a.test/ HTTP/1.1\r\n\r\n", "", "", http1.ErrChunks},
		{"bare CR in a trailer", chunked, "0\r\nX: 1\rSet-Cookie: 2\r\n\r\n", "", "", http1.ErrChunks},
		{"a NUL in a trailer", chunked, "0\r\nX: 1\x00\r\n\r\n", "", "", http1.ErrChunks},
		{"too many trailers", chunked, "0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 20) + "\r\n", "", "", http1.ErrChunks},
	} {
		for how, br := range map[string]*bufio.Reader{
			"whole":        bufio.NewReader(strings.NewReader(c.text)),
			"byte by byte": bufio.NewReader(iotest.OneByteReader(strings.NewReader(c.text))),
			"with its end": bufio.NewReader(iotest.DataErrReader(strings.NewReader(c.text))),
		} {
			b := http1.NewBody(br, c.framing)
			got, err := io.ReadAll(b)
			if string(got) != c.body || !errors.Is(err, c.err) || err == nil && c.err != nil {
				t.Errorf("%s, %s: %q %v", c.name, how, got, err)
			}
			if b.Ended() != (c.err == nil) {
				t.Errorf("%s, %s: ended is %v", c.name, how, b.Ended())
			}
			if again, err2 := b.Read(make([]byte, 9)); again != 0 || err2 == nil || err != nil && !errors.Is(err2, err) {
				t.Errorf("%s, %s: a further read gave %d %v", c.name, how, again, err2)
			}
			if rest, _ := io.ReadAll(br); c.err == nil && string(rest) != c.rest {
				t.Errorf("%s, %s: %q follows", c.name, how, rest)
			}
		}
	}
}

// One trailer field may be as long as all of them, however much of a line the reader holds.
func TestALongTrailerIsTaken(t *testing.T) {
	for length, want := range map[int]error{5000: nil, http1.MaxTrailers: nil, http1.MaxTrailers + 1: http1.ErrChunks, 1 << 20: http1.ErrChunks} {
		value := strings.Repeat("y", length-len("X-A:"))
		for _, size := range []int{16, 4 << 10, 64 << 10} {
			br := bufio.NewReaderSize(strings.NewReader("1\r\nx\r\n0\r\nX-A:"+value+"\r\n\r\nrest"), size)
			b := http1.NewBody(br, http1.Framing{Chunked: true})
			if _, err := io.ReadAll(b); !errors.Is(err, want) {
				t.Errorf("%d bytes, %d at once: %v", length, size, err)
			} else if want == nil && b.Trailer().Get("X-A") != value {
				t.Errorf("%d bytes, %d at once: it came as another", length, size)
			}
			if rest, _ := io.ReadAll(br); want == nil && string(rest) != "rest" {
				t.Errorf("%d bytes, %d at once: %d bytes are left", length, size, len(rest))
			}
		}
	}
	b := http1.NewBody(bufio.NewReaderSize(strings.NewReader("0\r\nX-A:"+strings.Repeat("y", 100)), 16), http1.Framing{Chunked: true})
	if _, err := io.ReadAll(b); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut in a long one: %v", err)
	}
}

func TestTrailersFollowTheBody(t *testing.T) {
	b := http1.NewBody(bufio.NewReader(strings.NewReader("1\r\nx\r\n0\r\nx-a: 1\r\nX-A:\t2 \r\nX-B:\r\n\r\n")), chunked)
	if b.Trailer() != nil {
		t.Error("trailers before the end")
	}
	if _, err := io.ReadAll(b); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"X-A": {"1", "2"}, "X-B": {""}}
	if got := b.Trailer(); len(got) != 2 || strings.Join(got["X-A"], "|") != strings.Join(want["X-A"], "|") || len(got["X-B"]) != 1 {
		t.Errorf("%q", got)
	}
}

// The last bytes of a body of known length come with its end, so that a reader
// knows it without another wait.
func TestTheEndComesWithTheLastBytes(t *testing.T) {
	b := http1.NewBody(bufio.NewReader(strings.NewReader("hello and more")), long(5))
	if n, err := b.Read(make([]byte, 9)); n != 5 || err != io.EOF {
		t.Errorf("%d %v", n, err)
	}
	if n, err := b.Read(nil); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d %v", n, err)
	}
}

// A read gives what is there, whatever of the message is missing still.
func TestBodiesPassAsTheyCome(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	b := http1.NewBody(bufio.NewReader(near), chunked)
	buf := make([]byte, 100)
	for _, step := range []struct {
		send, want string
		ready      bool // for the next read, after this one
	}{
		{"5\r\nhello", "hello", false},
		{"\r\n6\r\n world\r", " world", false},
		{"\n2\r\nab\r\n3\r\ncd", "abcd", false},
		{"e\r\n1", "e", false},
		{"\r\nf\r\n2\r\n", "f", false},
		{"gh\r\n0\r\n", "gh", false}, // the last chunk's end is not there: the data must not wait for it
	} {
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = io.WriteString(far, step.send) }()
		n, err := b.Read(buf)
		if err != nil || string(buf[:n]) != step.want {
			t.Fatalf("%q: %q %v", step.send, buf[:n], err)
		}
		<-sent
		if b.Ready() != step.ready || !b.Waits() {
			t.Errorf("after %q: ready %v, waits %v", step.send, b.Ready(), b.Waits())
		}
	}
	go func() { _, _ = io.WriteString(far, "\r\n") }()
	if n, err := b.Read(buf); n != 0 || err != io.EOF {
		t.Errorf("%d %v", n, err)
	}
	if b.Ready() || b.Waits() {
		t.Error("ready, or waiting, after the end")
	}
}

// Of several chunks that are there, one read gives all that fit.
func TestChunksThatAreThereComeTogether(t *testing.T) {
	br := bufio.NewReader(strings.NewReader("3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"))
	b := http1.NewBody(br, chunked)
	_, _ = br.Peek(1)
	if !b.Ready() || !b.Waits() {
		t.Error("data is there, behind a line")
	}
	for _, want := range []string{"abcd", "ef"} {
		buf := make([]byte, 4)
		if n, err := b.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("%q %v", buf[:n], err)
		}
		if want == "abcd" && (!b.Ready() || b.Waits()) {
			t.Error("data of the chunk is there")
		}
	}
}
