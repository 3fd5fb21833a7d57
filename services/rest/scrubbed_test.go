package rest_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

func TestEncodedAnswersPassUntouched_PC024(t *testing.T) {
	text := strings.Repeat("an honest answer, again and again. ", 9000)
	for coding, encoded := range encodings(text) {
		for _, framing := range []string{"length", "chunked"} {
			t.Run(coding+" "+framing, func(t *testing.T) {
				r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, encoded, framing == "chunked")}})
				answer, result := r.must(t, r.call("GET", "/coded", "Accept-Encoding: "+coding))
				if answer.Body != encoded {
					t.Errorf("%d bytes became %d others", len(encoded), len(answer.Body))
				}
				equal(t, "coding", answer.Header.Get("Content-Encoding"), coding)
				equal(t, "etag", answer.Header.Get("ETag"), `"e"`)
				equal(t, "unscanned", result.Unscanned, false)
				equal(t, "bytes in", result.BytesIn, int64(len(encoded)))
				equal(t, "asked", strings.Join(r.Last(t).Fields("Accept-Encoding"), "|"), coding)
				if framing == "length" {
					equal(t, "length", answer.Header.Get("Content-Length"), strconv.Itoa(len(encoded)))
				}
			})
		}
	}
}

func coded(coding, encoded string, chunks bool) servicestest.Behave {
	return func(c *servicestest.Conn, q *servicestest.Request) bool {
		head := "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Encoding: " + coding + "\r\n"
		if !chunks {
			return c.Send(head, "Content-Length: ", strconv.Itoa(len(encoded)), "\r\n\r\n", encoded)
		}
		c.Send(head, "Transfer-Encoding: chunked\r\n\r\n")
		for len(encoded) > 0 {
			n := min(len(encoded), 37)
			c.Send(servicestest.Chunk(encoded[:n]))
			encoded = encoded[n:]
		}
		return c.Send("0\r\n\r\n")
	}
}

func encodings(text string) map[string]string {
	var br, zs bytes.Buffer
	b := brotli.NewWriter(&br)
	_, _ = io.WriteString(b, text)
	_ = b.Close()
	z, _ := zstd.NewWriter(&zs)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return map[string]string{"gzip": servicestest.Gzip(text), "br": br.String(), "zstd": zs.String()}
}

func TestReflectedBodies_CL007(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	core := base64.RawStdEncoding.EncodeToString([]byte(canary))
	for _, as := range []string{"json", "base64", "hex", "percent", "chunked"} {
		for _, step := range []int{0, 1, 7} {
			answer, result := r.must(t, r.call("GET", fmt.Sprintf("/reflect?as=%s&split=%d", as, step)))
			if result.Scrubbed == 0 || leaks(answer.Body) || strings.Contains(answer.Body, core[4:24]) {
				t.Errorf("%s in steps of %d: %d hits\n%s", as, step, result.Scrubbed, answer.Body)
			}
			if n := answer.Header.Get("Content-Length"); n != "" && n != strconv.Itoa(len(answer.Body)) {
				t.Errorf("%s: the length changed", as)
			}
		}
	}
}

// leaks looks for the canary in the forms a reader could turn back.
func leaks(text string) bool {
	plain, _ := base64.StdEncoding.DecodeString(text)
	for _, form := range []string{canary, "6b6263616e617279", "kbcanary-7f3a9c%2F", "kbcanary"} {
		if strings.Contains(text, form) || strings.Contains(string(plain), form) {
			return true
		}
	}
	return false
}

func TestReflectedInHeads_CL009(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for _, in := range []string{"header", "location", "cookie", "reason", "trailer", "early"} {
		answer, _ := r.must(t, r.call("GET", "/reflect?in="+in))
		if text := fmt.Sprint(answer); strings.Contains(strings.ToLower(text), "kbcanary") {
			t.Errorf("%s: %s", in, text)
		}
	}
	answer, result := r.must(t, r.call("GET", "/reflect?in=header"))
	equal(t, "echo", answer.Header.Get("X-Echo"), "Bearer "+strings.Repeat("*", len(canary)))
	equal(t, "scrubbed", result.Scrubbed, 1)
	named := r.call("GET", "/reflect?in=name")
	named.Credential.Value = runtime.NewSecret("kbcanary-as-a-name")
	if answer, _ := r.must(t, named); strings.Contains(strings.ToLower(fmt.Sprint(answer)), "kbcanary") {
		t.Errorf("name: %v", answer.Header)
	}
	trailing := r.call("GET", "/reflect?in=trailer-name")
	trailing.Credential.Value = runtime.NewSecret("kbcanary-as-a-name")
	answer, _ = r.must(t, trailing)
	if strings.Contains(strings.ToLower(fmt.Sprint(answer)), "kbcanary") {
		t.Errorf("trailer name: %v %v", answer.Header, answer.Trailer)
	}
	equal(t, "announced", answer.Header.Get("Trailer")+" "+answer.Trailer.Get("X-Sum"), "X-Sum 42")
	_, _, err := r.do(t, r.call("GET", "/reflect?in=malformed"))
	if err == nil || strings.Contains(err.Error(), "kbcanary") {
		t.Errorf("the error quotes the credential: %v", err)
	}
}

func TestReflectedInCompressedBodies_CL010(t *testing.T) {
	text := strings.Repeat("x", 100_000) + ` {"token": "` + canary + `"} ` + strings.Repeat("y", 1000)
	for coding, encoded := range encodings(text) {
		for _, chunks := range []bool{false, true} {
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, encoded, chunks)}})
			answer, result, err := r.do(t, r.call("GET", "/coded"))
			e := runtime.AsError(err)
			if e == nil || e.Reason != runtime.ReasonReflectedSecret || answer.Aborted == nil || result.Scrubbed != 1 {
				t.Errorf("%s: %v, aborted %v", coding, err, answer.Aborted)
			}
			if len(answer.Body) >= len(encoded) {
				t.Errorf("%s: all of it left", coding)
			}
		}
	}
	r := newRig(t, servicestest.Options{})
	for _, as := range []string{"gzip", "deflate"} {
		r.refused(t, r.call("GET", "/reflect?as="+as), runtime.CodeUpstream, runtime.ReasonReflectedSecret)
	}
	_, result := r.must(t, r.call("GET", "/reflect?as=unknown"))
	equal(t, "unscanned", result.Unscanned, true)
	strict := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.ScrubStrict = true })
	strict.refused(t, strict.call("GET", "/reflect?as=unknown"), runtime.CodeUpstream, runtime.ReasonScrubImpossible)
}

func TestDamagedEncodings(t *testing.T) {
	whole := servicestest.Gzip("some text")
	for name, encoded := range map[string]string{"not gzip": "plain text", "cut": whole[:len(whole)-6], "followed": whole + "more", "empty": ""} {
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded("gzip", encoded, false)}})
		answer, result := r.must(t, r.call("GET", "/coded"))
		equal(t, name, answer.Body, encoded)
		equal(t, name+" unscanned", result.Unscanned, encoded != "")
	}
}

// gzip has a name and a comment beside what is in it, which nobody decodes.
func TestReflectedInTheHeadOfGzip(t *testing.T) {
	for _, chunks := range []bool{false, true} {
		var encoded bytes.Buffer
		w := gzip.NewWriter(&encoded)
		w.Name = "of-" + canary
		_, _ = io.WriteString(w, strings.Repeat("nothing here ", 10_000))
		_ = w.Close()
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded("gzip", encoded.String(), chunks)}})
		r.refused(t, r.call("GET", "/coded"), runtime.CodeUpstream, runtime.ReasonReflectedSecret)
	}
}

// What some bytes of zstd decode to can take a processor for minutes. That is not done to its
// end, and said; what gzip can make of its bytes is searched to the last.
func TestAnswersThatDecodeToVeryMuch(t *testing.T) {
	// RFC 8878: a frame of unknown size, a window of 128 KiB, 1 GiB in blocks of one repeated byte.
	bomb := "\x28\xb5\x2f\xfd\x00\x38" + strings.Repeat("\x02\x00\x10x", 1<<13-1) + "\x03\x00\x10x"
	route := map[string]servicestest.Behave{"/coded": coded("zstd", bomb, false)}
	r := newRig(t, servicestest.Options{Routes: route})
	answer, result := r.must(t, r.call("GET", "/coded"))
	equal(t, "unscanned", result.Unscanned, true)
	equal(t, "the upstream's bytes", answer.Body == bomb, true)

	long := servicestest.Gzip(strings.Repeat("\x00", 80<<20) + canary)
	r = newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded("gzip", long, false)}})
	r.refused(t, r.call("GET", "/coded"), runtime.CodeUpstream, runtime.ReasonReflectedSecret)
}

// A body that is not in the encoding it names, or goes on behind its end, is searched as
// it stands: there are servers that name an encoding and use none.
func TestMisnamedEncodingsAreSearchedAsTheyStand(t *testing.T) {
	json := `{"headers": {"Authorization": "Bearer ` + canary + `"}}`
	asterisks := strings.ReplaceAll(json, canary, strings.Repeat("*", len(canary)))
	bodies := map[string]string{"gzip": json, "deflate": json, "br": json, "zstd": json}
	for _, coding := range []string{"gzip", "zstd"} {
		bodies[coding+" and more"] = string(packed(t, coding, "some text")) + json
		bodies[coding+" far"] = strings.Repeat("x", 40<<10) + json
	}
	for name, sent := range bodies {
		coding, _, _ := strings.Cut(name, " ")
		for _, chunks := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", chunks ", chunks), func(t *testing.T) {
				r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, sent, chunks)}})
				answer, result := r.must(t, r.call("GET", "/coded"))
				if want := strings.ReplaceAll(sent, json, asterisks); answer.Body != want {
					t.Errorf("got %q", answer.Body[max(0, len(answer.Body)-200):])
				}
				equal(t, "unscanned", result.Unscanned, true)
				equal(t, "scrubbed", result.Scrubbed, 1)
				equal(t, "bytes in", result.BytesIn, int64(len(sent)))
			})
		}
	}
}

// A text can be bare deflate for some bytes, by chance, up to the midst of a credential:
// where or behind it that ends says nothing of the text.
func TestAMisnamedEncodingThatEndsInACredential(t *testing.T) {
	const secret = "kbcanary@7f3a9c@Zx@Q81w@"
	found := 0
	for n := 0; n < 1<<17 && found < 3; n++ {
		sent := fmt.Sprintf("key %d: %s is not known", n, secret)
		src := strings.NewReader(sent)
		if _, err := io.Copy(io.Discard, flate.NewReader(src)); err != nil {
			continue
		}
		end, at := len(sent)-src.Len(), strings.Index(sent, secret)
		if end <= at || end == len(sent) {
			continue
		}
		found++
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded("deflate", sent, false)}})
		call := r.call("GET", "/coded")
		call.Credential.Value = runtime.NewSecret(secret)
		answer, result := r.must(t, call)
		equal(t, "answer", answer.Body, strings.ReplaceAll(sent, secret, strings.Repeat("*", len(secret))))
		equal(t, "scrubbed", result.Scrubbed, 1)
		equal(t, "bytes in", result.BytesIn, int64(len(sent)))
	}
	if found == 0 {
		t.Fatal("no text ends there")
	}
}

// The caller's own credential comes back untouched: it is no secret of ours.
func TestNothingStoredNothingScanned(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("GET", "/reflect", "Authorization: Bearer "+canary)
	c.Credential = runtime.Credential{}
	answer, result := r.must(t, c)
	if !strings.Contains(answer.Body, canary) || result.Scrubbed != 0 || result.Used != runtime.CredentialCaller {
		t.Errorf("scrubbed %d, used %q: %s", result.Scrubbed, result.Used, answer.Body)
	}
}
