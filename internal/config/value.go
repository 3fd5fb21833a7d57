package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Duration is a time.Duration that is written with its unit: "10s", "5m", "8h", "30d".
type Duration time.Duration

const day = 24 * time.Hour

// ParseDuration reads a length of time, as [runtime.ParseSpan] does, that is not negative.
func ParseDuration(text string) (Duration, error) {
	if d, err := runtime.ParseSpan(text); err == nil && d >= 0 {
		return Duration(d), nil
	}
	return 0, wrong{fmt.Sprintf("%q is not a duration", text), "write it with its unit: 500ms, 10s, 5m, 8h, or in whole days: 30d"}
}

// Duration returns d for the standard library.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

// String writes d without parts that are zero: "8h", not "8h0m0s"; and "90d" what is more
// than one day, and whole ones.
func (d Duration) String() string {
	if n := d.Duration() / day; n > 1 && n <= runtime.MaxDays && d.Duration()%day == 0 {
		return strconv.Itoa(int(n)) + "d"
	}
	return runtime.Span(d.Duration())
}

// Size is a number of bytes that is written with a binary unit: "96MiB".
type Size int64

// parseSize reads a whole number of bytes, KiB, MiB or GiB.
func parseSize(text string) (Size, error) {
	bad := wrong{fmt.Sprintf("%q is not a size", text), "write it as 65536, 512KiB, 96MiB or 1GiB"}
	digits := strings.TrimRight(text, "KMGiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits == "" || digits[0] == '+' || digits[0] == '0' && len(digits) > 1 {
		return 0, bad
	}
	for _, u := range units() {
		if text[len(digits):] == u.name {
			if n > (1<<62)/u.bytes {
				return 0, bad
			}
			return Size(n * u.bytes), nil
		}
	}
	return 0, bad
}

// String writes s in the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, u := range units() {
		if u.bytes > 1 && s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

type unit struct {
	name  string
	bytes int64
}

func units() []unit {
	return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}
}
