package http1_test

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

func TestFieldsKeepOrderAndSpelling(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		order  string
		want   string
	}{
		{"as written", http.Header{"B": {"1"}, "A": {"2"}}, "b A", "b: 1|A: 2"},
		{"without order: sorted", http.Header{"B": {"1", "2"}, "A": {"3"}}, "", "A: 3|B: 1|B: 2"},
		{"values between others", http.Header{"A": {"1", "2"}, "B": {"3"}}, "a B A", "a: 1|B: 3|A: 2"},
		{"three times, one value", http.Header{"A": {"1"}, "B": {"2"}}, "A a B A", "A: 1|B: 2"},
		{"three times, two values", http.Header{"A": {"1", "2"}}, "A a A", "A: 1|a: 2"},
		{"more values than lines", http.Header{"A": {"1", "2", "3"}, "B": {"4"}}, "a B", "a: 1|B: 4|A: 2|A: 3"},
		{"removed", http.Header{"B": {"1"}}, "A B C", "B: 1"},
		{"added", http.Header{"B": {"1"}, "D": {"2"}, "C": {"3"}}, "B", "B: 1|C: 3|D: 2"},
		{"named, without a value", http.Header{"A": {}, "B": nil}, "A B", ""},
		{"no fields", nil, "A", ""},
		{"one name begins another", http.Header{"Ab": {"1"}, "A": {"2"}}, "AB A", "AB: 1|A: 2"},
	} {
		lines := strings.TrimSuffix(string(http1.AppendFields(nil, c.header, strings.Fields(c.order))), "\r\n")
		if got := strings.ReplaceAll(lines, "\r\n", "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWritingOfMessages(t *testing.T) {
	trailer := http.Header{"X-B": {"2", "3"}, "X-A": {"1"}}
	for _, c := range []struct{ got, want string }{
		{string(http1.AppendStatus([]byte("x"), 200, "All  Fine")), "xHTTP/1.1 200 All  Fine\r\n"},
		{string(http1.AppendStatus(nil, 404, "")), "HTTP/1.1 404 \r\n"},
		{string(http1.AppendField([]byte("x"), "A", "b")), "xA: b\r\n"},
		{string(http1.AppendChunk([]byte("x"), []byte(strings.Repeat("y", 26)))), "x1a\r\n" + strings.Repeat("y", 26) + "\r\n"},
		{string(http1.AppendLastChunk(nil, nil)), "0\r\n\r\n"},
		{string(http1.AppendLastChunk([]byte("x"), trailer)), "x0\r\nX-A: 1\r\nX-B: 2\r\nX-B: 3\r\n\r\n"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// Every value is written once, whatever an order names: fields that are there or not, in any
// spelling, more often or less often than they have values.
func TestEveryValueIsWrittenOnce(t *testing.T) {
	names := []string{"Accept", "accept", "Via", "VIA", "Cookie", "X-A", "x-a", "Gone"}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		h, want := http.Header{}, map[string]int{}
		for _, key := range []string{"Accept", "Via", "Cookie", "X-A"} {
			for n := range random.IntN(4) {
				h[key] = append(h[key], key+strconv.Itoa(n))
				want[key+strconv.Itoa(n)]++
			}
		}
		var order []string
		for range random.IntN(8) {
			order = append(order, names[random.IntN(len(names))])
		}
		got := map[string]int{}
		http1.Each(h, order, func(name, value string) {
			if got[value]++; !strings.HasPrefix(value, textproto.CanonicalMIMEHeaderKey(name)) {
				t.Fatalf("%q, in the order %q: %s is written as %s", h, order, value, name)
			}
		})
		if !maps.Equal(got, want) {
			t.Fatalf("%q, in the order %q: %v", h, order, got)
		}
	}
}
