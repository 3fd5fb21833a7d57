package http1_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// reader gives a text byte by byte, with a buffer that is smaller than a head.
func reader(text string) *bufio.Reader {
	return bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(text)), 16)
}

func TestHeadsEndAtTheirEmptyLine(t *testing.T) {
	long := "GET /" + strings.Repeat("x", 100) + " HTTP/1.1\r\n\r\n"
	for _, c := range []struct {
		text   string
		strict bool
		head   string
		err    error
	}{
		{"A\r\nB: c\r\n\r\nrest", true, "A\r\nB: c\r\n\r\n", nil},
		{"A\r\n\r\nrest", true, "A\r\n\r\n", nil},
		{long, true, long, nil},
		{"A\nB: c\n\nrest", false, "A\nB: c\n\n", nil},
		{"A\r\nB: c\n\r\nrest", false, "A\r\nB: c\n\r\n", nil},
		{"A\r\n\nrest", false, "A\r\n\n", nil},
		{"A\nB: c\n\n", true, "", http1.ErrBareLF},
		{"A\r\nB: c\n\r\n", true, "", http1.ErrBareLF},
		{"A\r\n\n", true, "", http1.ErrBareLF},
		{"\r\nA\r\n\r\n", true, "", http1.ErrMalformed},
		{"\nA\n\n", false, "", http1.ErrMalformed},
		{"", true, "", io.EOF},
		{"A", true, "", io.ErrUnexpectedEOF},
		{"A\r\nB: c\r\n", true, "", io.ErrUnexpectedEOF},
		{"A\r\nB: " + strings.Repeat("x", 200), true, "", http1.ErrTooLarge},
		{"A\r\nB: " + strings.Repeat("x", 195) + "\r\n\r\n", true, "", http1.ErrTooLarge},
	} {
		br := reader(c.text)
		got, err := http1.ReadHead(br, []byte("kept"), 150, c.strict)
		if !errors.Is(err, c.err) || err == nil && c.err != nil {
			t.Errorf("%q: error %v, want %v", c.text, err, c.err)
		}
		if !strings.HasPrefix(string(got), "kept") {
			t.Errorf("%q: what was in the buffer is gone: %q", c.text, got)
		}
		if c.err != nil {
			continue
		}
		rest, _ := io.ReadAll(br)
		if string(got) != "kept"+c.head || c.head+string(rest) != c.text {
			t.Errorf("%q: head %q, then %q", c.text, got, rest)
		}
	}
}

func TestAHeadOfTheLimitFits(t *testing.T) {
	const text = "A\r\nB: c\r\n\r\n"
	if _, err := http1.ReadHead(reader(text), nil, len(text), true); err != nil {
		t.Error(err)
	}
	if _, err := http1.ReadHead(reader(text), nil, len(text)-1, true); !errors.Is(err, http1.ErrTooLarge) {
		t.Error(err)
	}
}

// RFC 9110 section 5.6.2, byte by byte.
func TestTokensAndValues(t *testing.T) {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for c := range 256 {
		text := string([]byte{byte(c)})
		if got, want := http1.IsToken("a"+text), strings.Contains(token, text); got != want {
			t.Errorf("%q in a token: %v", text, got)
		}
		if got, want := http1.IsValue("a"+text), c == '\t' || c >= ' ' && c != 0x7f; got != want {
			t.Errorf("%q in a value: %v", text, got)
		}
	}
	if http1.IsToken("") || !http1.IsValue("") {
		t.Error("an empty name, or no empty value")
	}
}

// The deadline moves when less than seven eighths are left or more than all, and
// after somebody else has moved it.
func TestDeadlinesMoveOnlyWhenTheyMust(t *testing.T) {
	var d http1.Deadline
	var set []time.Time
	note := func(by time.Time) error { set = append(set, by); return nil }
	before := time.Now()
	d.Within(time.Hour, note)
	if len(set) != 1 || set[0].Before(before.Add(time.Hour)) || set[0].After(time.Now().Add(time.Hour)) {
		t.Fatalf("%v", set)
	}
	d.Within(time.Hour, note)
	d.Within(time.Hour+time.Minute, note) // still seven eighths
	if len(set) != 1 {
		t.Errorf("moved for nothing: %v", set)
	}
	d.Within(time.Minute, note) // sooner
	d.Within(time.Hour, note)   // later
	if len(set) != 3 || !set[1].Before(set[0]) || set[2].Before(set[0]) {
		t.Errorf("%v", set)
	}
	d.Forget()
	d.Within(time.Hour, note)
	if len(set) != 4 {
		t.Errorf("not set after it was moved by other means: %v", set)
	}
}
