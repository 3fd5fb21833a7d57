package segment_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// read runs the line reader over r: how many lines are records, how many not.
func read(r io.Reader) (records, others int) {
	for lines := segment.NewLines(r, 0); ; {
		line, err := lines.Next()
		switch {
		case errors.Is(err, segment.ErrLong):
			others++
		case err != nil:
			return records, others
		default:
			if _, err := segment.ParseLink(line); err == nil {
				records++
			} else {
				others++
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"seq\":1,\"prev\":\"" + strings.Repeat("0", 64) + "\",\"kind\":\"intent\",\"time\":\"\"}\n"))
	f.Add([]byte("{\"seq\":01,\"prev\":\"\n\n\x00"))
	f.Add([]byte("{\"seq\":2,\"prev\":\"" + strings.Repeat("f", 64) + "\",\"kind\":\"outcome\",\"intent\":99999999999999999999"))
	f.Add([]byte("{\"seq\":1}\n  \n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := 0
		for line := range strings.Lines(string(data)) { // to the room behind the records
			if line[0] == segment.Room {
				break
			}
			want += strings.Count(line, "\n")
		}
		if records, others := read(strings.NewReader(string(data))); records+others != want {
			t.Fatalf("%d lines were read as %d", want, records+others)
		}
	})
}

func TestLongLinesAreSkippedInBoundedMemory(t *testing.T) {
	long := strings.Repeat("x", 3<<20) + "\n"
	if records, others := read(strings.NewReader(long + long + "y\n")); records != 0 || others != 3 {
		t.Errorf("%d records, %d other lines", records, others)
	}
}
