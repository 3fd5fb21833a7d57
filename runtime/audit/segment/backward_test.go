package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// both reads whole lines forward and backward, "long" for one that is over the limit, and
// where each begins.
func both(t testing.TB, text string) (forward, backward []string) {
	t.Helper()
	for lines := segment.NewLines(strings.NewReader(text), 0); ; {
		line, err := lines.Next()
		if errors.Is(err, segment.ErrLong) {
			line, err = []byte("long"), nil
		}
		if err != nil {
			break
		}
		forward = append(forward, fmt.Sprint(lines.Start, " ", string(line)))
	}
	lines := segment.NewBackward(strings.NewReader(text), int64(len(text)))
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, segment.ErrLong) {
			line, err = []byte("long"), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		backward = append(backward, fmt.Sprint(lines.Start, " ", string(line)))
	}
	slices.Reverse(backward)
	return forward, backward
}

func TestBackwardReadsTheSameLines(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "line %d %s\n", i, strings.Repeat("y", i%400))
	}
	for _, text := range []string{
		"", "torn", "\n", "a\ntorn", "a\n" + long, long + "\ntorn", "\n\n", "a\n", "a\nb\n", "\na\n\n", many.String(), long + "\n", "a\n" + long + "\nb\n", long + "\n" + long + "\n",
		many.String() + long + "\n" + many.String(), strings.Repeat("z", 1<<20-1) + "\n", "a\n" + strings.Repeat("z", 1<<20) + "\n", "a\n" + strings.Repeat("z", 1<<20+9) + "\nb\n", strings.Repeat("z", 300<<10) + "\n" + strings.Repeat("z", 256<<10) + "\n",
	} {
		if forward, backward := both(t, text); !slices.Equal(forward, backward) {
			t.Errorf("%.40q: %d lines, backward %d", text, len(forward), len(backward))
		}
	}
}

func FuzzBackward(f *testing.F) {
	f.Add([]byte("a\n\nb\nlong line\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := string(bytes.ReplaceAll(data, []byte{segment.Room}, []byte("_")))
		if forward, backward := both(t, text); !slices.Equal(forward, backward) {
			t.Errorf("%q: %q, backward %q", text, forward, backward)
		}
	})
}
