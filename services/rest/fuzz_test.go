package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// cutter gives a text in pieces whose sizes are the bytes of sizes, over and
// over; none of them: in one piece.
type cutter struct {
	text, sizes []byte
	at          int
}

func (c *cutter) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := len(c.text)
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.at%len(c.sizes)]) + 1
		c.at++
	}
	n = copy(p[:min(n, len(p))], c.text)
	c.text = c.text[n:]
	return n, nil
}

// ofMessages is no coding: the body is of messages.
const ofMessages = "messages"

// scrubbed passes a body through the scrubber.
func scrubbed(m *scrub.Matcher, body, sizes []byte, coding string) (runtimetest.Answer, runtime.Result, error) {
	var result runtime.Result
	out := &runtimetest.Responder{}
	x := &exchange{b: &Backend{}, lines: &lines{o: &Options{}}, message: &message{scrub: m, authority: "a.test:443"}, out: out, result: &result}
	_ = out.Start(200, nil)
	var err error
	switch src := (&cutter{text: body, sizes: sizes}); coding {
	case "":
		err = x.copyMasked(src)
	case ofMessages:
		err = x.copyParts(src, &messages{})
	default:
		err = x.copyScanned(context.Background(), src, coding)
	}
	return out.Answer(), result, err
}

func zipped(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}

// However an answer is cut, the same bytes are overwritten as when it comes
// whole; compressed, it is cut off in either case or in neither.
func FuzzScrub(f *testing.F) {
	f.Add("a-secret-value", "", []byte("xxa-secret-valuexxa-secret-value"), []byte{3})
	f.Add("aaaaaaaa", "", []byte("aaaaaaaaaaaaaaaaaaaab"), []byte{0})
	f.Add("s3cr3t/Value+x", "", []byte("czNjcjN0L1ZhbHVlK3g= s3cr3t%2FValue%2Bx s3cr3t\\/Value+x"), []byte{0, 7, 1})
	f.Add("user:pass", "", []byte("dXNlcjpwYXNz dXNlcjpwYXNzOg== dXNlcjpwYXNz"), []byte{11, 0})
	f.Add("account-47-main", "account-47", []byte("x account-47-main account-47 account-47-mai"), []byte{11, 1})
	f.Fuzz(func(t *testing.T, secret, user string, text, sizes []byte) {
		m := scrub.New(secret, base64.StdEncoding.EncodeToString([]byte(user+":"+secret)), user)
		if m == nil {
			return
		}
		whole, _, err := scrubbed(m, text, nil, "")
		if err != nil || !slices.EqualFunc(text, []byte(whole.Body), func(was, is byte) bool { return is == was || is == '*' }) {
			t.Fatalf("%q became %q, %v", text, whole.Body, err)
		}
		cut, result, err := scrubbed(m, text, sizes, "")
		if err != nil || cut.Body != whole.Body {
			t.Fatalf("%q became %q whole and %q in pieces of %v, %v", text, whole.Body, cut.Body, sizes, err)
		}
		if (result.Scrubbed > 0) != (cut.Body != string(text)) && !strings.Contains(secret, "*") {
			t.Fatalf("%d hits in %q, which became %q", result.Scrubbed, text, cut.Body)
		}
		at, _ := m.Next(text, 0)
		packed := zipped(text)
		if at < 0 { // the bytes of the packing and those of the text may be one together
			at, _ = m.Next(packed, 0)
		}
		for _, pieces := range [][]byte{nil, sizes} {
			got, _, err := scrubbed(m, packed, pieces, "gzip")
			var reflected *runtime.Error
			if (at >= 0) != (errors.As(err, &reflected) && reflected.Reason == runtime.ReasonReflectedSecret) || at < 0 && got.Body != string(packed) {
				t.Fatalf("%q compressed, in pieces of %v: %d of %d bytes, %v", text, pieces, len(got.Body), len(packed), err)
			}
		}
	})
}

// Comparing without a copy finds the same fields as folding does.
func FuzzFold(f *testing.F) {
	for _, seed := range [][2]string{{"X_Kimbap-A", "x-kimbap-"}, {"Proxy", "proxy-"}, {"x-\u212aimbap-", "x-kimbap-"}, {"CONTENT_LENGTH", "content-length"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		folded := fold(other)
		if foldedAs(name, folded) != (fold(name) == folded) {
			t.Errorf("foldedAs(%q, %q) = %v", name, folded, foldedAs(name, folded))
		}
		if begins(name, folded) != strings.HasPrefix(fold(name), folded) {
			t.Errorf("begins(%q, %q) = %v", name, folded, begins(name, folded))
		}
	})
}

func FuzzFindMember(f *testing.F) {
	f.Add(`{"a":1,"key":"x"}`)
	f.Add(`{"KEY":[{"key":1}]} `)
	f.Fuzz(func(t *testing.T, body string) {
		at, err := findMember([]byte(body), "key")
		if err != nil || at.end == 0 {
			return
		}
		var v map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &v) != nil || string(v["key"]) != body[at.start:at.end] {
			t.Fatalf("%q: member at %+v", body, at)
		}
	})
}

// However messages are cut, the same bytes are overwritten in them as when they come as any
// body, and none waits for the next one.
func FuzzMessages(f *testing.F) {
	f.Add("a-secret-value", []byte("xxa-secret-valuexxa-secret-value"), []byte{3}, []byte{4})
	f.Add("aaaaaaaa", []byte("aaaaaaaaaaaaaaaaaaaab"), []byte{0}, []byte{0, 9})
	f.Add("a-secret-value", []byte("a-secret-valuea-secret-value"), []byte{12, 1, 0}, []byte{17, 18})
	f.Fuzz(func(t *testing.T, secret string, text, lengths, sizes []byte) {
		m := scrub.New(secret, "", "")
		if m == nil || strings.ContainsFunc(secret, func(r rune) bool { return r <= mostFlag }) {
			return
		}
		var stream []byte
		for i, rest := 0, text; len(rest) > 0; i++ {
			n := len(rest)
			if len(lengths) > 0 {
				n = min(n, int(lengths[i%len(lengths)]))
				if lengths[i%len(lengths)] == 0 { // a message of nothing, and the rest is one
					lengths = nil
				}
			}
			stream = binary.BigEndian.AppendUint32(append(stream, byte(i%2)), uint32(n))
			stream, rest = append(stream, rest[:n]...), rest[n:]
		}
		whole, _, err := scrubbed(m, stream, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		cut, _, err := scrubbed(m, stream, sizes, ofMessages)
		if err != nil || cut.Body != whole.Body {
			t.Fatalf("%q became %q whole and %q in pieces of %v, %v", stream, whole.Body, cut.Body, sizes, err)
		}
	})
}
