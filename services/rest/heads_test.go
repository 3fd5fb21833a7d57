package rest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime"
)

// fields are those of a usual request and answer.
func fields() (request, answer http.Header) {
	return http.Header{
			"Accept": {"application/vnd.github+json"}, "Accept-Encoding": {"gzip, br"}, "Accept-Language": {"en"}, "Authorization": {"Bearer test_kimbap"},
			"User-Agent": {"octokit/4.2"}, "X-Github-Api-Version": {"2022-11-28"}, "Content-Type": {"application/json"}, "If-None-Match": {`"abc"`},
		}, http.Header{
			"Date": {"Sun, 22 Nov 2026 08:00:00 GMT"}, "Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {"1234"}, "Cache-Control": {"private, max-age=60"},
			"Vary": {"Accept, Authorization"}, "Etag": {`W/"abc"`}, "X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Remaining": {"4999"}, "Server": {"github.com"},
			"Strict-Transport-Security": {"max-age=31536000"}, "X-Content-Type-Options": {"nosniff"}, "Connection": {"keep-alive"},
		}
}

func usual(header http.Header) *runtime.Call {
	return &runtime.Call{
		Request: &runtime.Request{
			Target: runtime.Target{Scheme: "https", Authority: "a.test:443", Method: "GET", Path: "/repos/a/b?page=2"},
			Raw:    &runtime.Raw{Proto: "HTTP/1.1", Header: header},
		},
		Action: &runtime.Action{
			Ref: "test.act", Service: "test", Auth: &runtime.Auth{Type: runtime.AuthBearer, Ref: "test", Placeholders: map[string]string{"T": "test_kimbap"}},
			HTTP: &runtime.HTTPSpec{Authorities: []string{"a.test:443"}},
		},
		Credential: runtime.Credential{Name: "test", Version: 1, Value: runtime.NewSecret("kbcanary-7f3a9c"), Authorities: []string{"a.test:443"}},
	}
}

// No name that matters begins with a letter that others are told by.
func TestOrdinaryFieldsMatterToNoList(t *testing.T) {
	for _, list := range [][]string{hopFields[:], misleading[:], {"proxy-x", "host", "content-length", "x-kimbap-x"}} {
		for _, name := range list {
			for _, spelling := range []string{name, strings.ToUpper(name), http.CanonicalHeaderKey(name), strings.ReplaceAll(name, "-", "_")} {
				if ordinary(spelling) {
					t.Errorf("%q is taken for one that matters to nobody", spelling)
				}
			}
		}
	}
	if ordinary("") || ordinary("\u212aeep-alive") || !ordinary("Accept") || !ordinary("date") {
		t.Error("the others")
	}
}

// A head of canonical names is read by its keys, any other one field by field: both
// give the same, whatever the names are.
func TestHeadsAreReadAlikeWhateverTheSpelling(t *testing.T) {
	names := []string{
		"Authorization", "authorization", "AUTHORIZATION", "X-Api-Key", "X_Api_Key", "X-API-Key", "x-api_key", "Expect", "eXpect", "Accept",
		"X-Token", "X_Token", "Connection", "Te", "X-Forwarded-Host", "X_forwarded_host", "Cookie", "Authorization\u212a",
	}
	plainSeen := 0
	rapid.Check(t, func(t *rapid.T) {
		h := http.Header{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 6).Draw(t, "names") {
			h[name] = append(h[name], rapid.SampledFrom([]string{"a", "100-continue", "NTLM x", ""}).Draw(t, "value"))
		}
		out, plain := cleanRequest(h, []string{"x-token"}, &runtime.Action{Ref: "test.act"}, &runtime.Result{})
		if plain && len(out) > 0 {
			plainSeen++
		}
		m := &message{header: out, plain: plain, result: &runtime.Result{}}
		slow := &message{header: out, result: &runtime.Result{}}
		if m.ownsConnection() != slow.ownsConnection() {
			t.Fatalf("%v: who owns the connection", out)
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "Expect", "x_api_key", "AUTHORIZATION", "X-Forwarded-Host"} {
			fast, all := slices.Sorted(slices.Values(m.values(name))), slices.Sorted(slices.Values(slow.values(name)))
			if !slices.Equal(fast, all) {
				t.Fatalf("%v: %s is %q or %q", out, name, fast, all)
			}
		}
		one, other := message{header: out.Clone(), plain: plain}, message{header: out.Clone()}
		gone, missed := one.remove("x_API-key"), other.remove("x_API-key")
		slices.Sort(missed)
		slices.Sort(gone)
		if !slices.Equal(gone, missed) || !maps.EqualFunc(one.header, other.header, slices.Equal) {
			t.Fatalf("%v: %q or %q are removed", out, gone, missed)
		}
	})
	if plainSeen == 0 {
		t.Error("no head was canonical")
	}
}

// No trailer carries what frames a message or says where it goes, and nothing that is of one
// connection is passed on, whichever engine asks and however it is spelled.
func TestWhatATrailerMayCarry(t *testing.T) {
	hop := "Connection Keep-Alive Proxy-Connection Te Trailer Transfer-Encoding Upgrade Http2-Settings Proxy-Authorization"
	framing := " Content-Length Host Content-Encoding Content-Type Content-Range Expect Max-Forwards Cache-Control Range X-Kimbap-Token"
	for name := range strings.FieldsSeq(hop + framing) {
		if trailerAllowed(name, nil) || trailerAllowed(strings.ReplaceAll(strings.ToUpper(name), "-", "_"), nil) {
			t.Errorf("%s may stand in a trailer", name)
		}
		if strings.Contains(hop, name) && removal(name, nil) == "" {
			t.Errorf("%s is passed on", name)
		}
	}
	for name := range strings.FieldsSeq("X-Sum Etag Server-Timing Digest Grpc-Status Proxied X-Kimbapish Hosts") {
		if !trailerAllowed(name, []string{"Authorization"}) || removal(name, nil) != "" {
			t.Errorf("%s is not passed on", name)
		}
	}
	if trailerAllowed("AUTHORIZATION", []string{"Authorization"}) || trailerAllowed("a b", nil) || trailerAllowed("", nil) {
		t.Error("a trailer carries a credential, or what is no name")
	}
}

// What is judged and written of heads for every request takes no more memory than it did.
func TestHeadsTakeFewAllocations(t *testing.T) {
	request, answer := fields()
	backend := &Backend{o: Options{Placeholders: func(string) (string, bool) { return "", false }, PlaceholderIn: func(string) (string, bool) { return "", false }}}
	call := usual(request)
	m, err := backend.compose(call, &runtime.Result{})
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{message: m, result: &runtime.Result{}}
	var head []byte
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"request": {13, func() { _, _ = backend.compose(call, &runtime.Result{}) }},
		"written": {0, func() { head = m.appendHead(head[:0]) }},
		"answer":  {5, func() { h := maps.Clone(answer); x.cleanAnswer(h, 200); x.scrubHead(h) }},
	} {
		if n := testing.AllocsPerRun(100, c.do); n > c.most {
			t.Errorf("%s: %v allocations, not %v", name, n, c.most) // of the answer, most are its copy
		}
	}
}

func BenchmarkHeads(b *testing.B) {
	request, answer := fields()
	backend := &Backend{o: Options{Placeholders: func(string) (string, bool) { return "", false }, PlaceholderIn: func(string) (string, bool) { return "", false }}}
	call := usual(request)
	b.Run("request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := backend.compose(call, &runtime.Result{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	m, err := backend.compose(call, &runtime.Result{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("answer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x := &exchange{message: m, result: &runtime.Result{}}
			h := maps.Clone(answer)
			x.cleanAnswer(h, 200)
			x.scrubHead(h)
		}
	})
	var head []byte
	b.Run("written", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			head = m.appendHead(head[:0])
		}
	})
}
