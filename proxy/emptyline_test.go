package proxy

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Old clients send an empty line behind the body of a POST, which a server should ignore
// (RFC 9112 section 2.2). One before a request that is not the first is: it is no part of
// any request, and reaches nobody.
func TestOneEmptyLineBetweenRequestsIsIgnored(t *testing.T) {
	const post = "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 2\r\n\r\nab"
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		for name, pieces := range map[string][]string{
			"at once":           {post + "\r\n" + openGood},
			"behind the body":   {post + "\r\n", openGood},
			"before the next":   {post, "\r\n" + openGood},
			"in pieces":         {post, "\r", "\n", openGood},
			"half of it":        {post + "\r", "\n" + openGood},
			"half with it":      {post, "\r", "\n" + openGood},
			"by itself":         {post, "\r\n", openGood},
			"behind a GET":      {openGood, "\r\n" + openGood},
			"between each":      {openGood + "\r\n" + post + "\r\n" + openGood + "\r\n" + post},
			"behind chunks":     {"POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n\r\n", openGood},
			"before a denied":   {post + "\r\n" + strings.Replace(openGood, "/open", "/denied", 1) + "\r\n" + openGood},
			"behind a long one": {strings.Replace(post, "ab", "", 1), "ab\r\n" + openGood},
		} {
			t.Run(string(engine)+" "+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
				received := r.upstream("api.good.test:443", answering(okAnswer))
				inside := r.open("api.good.test:443")
				inside.t = t
				whole := strings.Join(pieces, "")
				for _, piece := range pieces {
					inside.send(piece)
				}
				for n := strings.Count(whole, "HTTP/1.1"); n > 0; n-- {
					resp, body := inside.get("GET")
					if want := r.outcome(); resp.StatusCode >= 400 && (want.Err == nil || want.Err.Code != runtime.CodeForbidden) {
						t.Errorf("%s %q, recorded %+v", resp.Status, body, want.Err)
					}
				}
				_ = inside.Close()
				if got := received(); strings.Contains(got, "\r\n\r\n\r\n") || strings.HasPrefix(got, "\r\n") || strings.Contains(got, "ab\r\n") {
					t.Errorf("the upstream got %q", got)
				}
			})
		}
	}
}

// Everything else is refused as before: no request has an empty line, and what a lenient
// parser would pass over beside it, another might read.
func TestOtherEmptyLinesAreRefused(t *testing.T) {
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		for name, c := range map[string]struct {
			before string // a request that is answered
			text   string
			code   runtime.Code
		}{
			"before the first":   {"", "\r\n" + openGood, runtime.CodeInvalidInput},
			"two":                {openGood, "\r\n\r\n" + openGood, runtime.CodeInvalidInput},
			"a bare LF":          {openGood, "\n" + openGood, runtime.CodeAmbiguousTarget},
			"a bare CR":          {openGood, "\r" + openGood, runtime.CodeInvalidInput},
			"two CR":             {openGood, "\r\r\n" + openGood, runtime.CodeInvalidInput},
			"a blank":            {openGood, "\r\n " + openGood, runtime.CodeInvalidInput},
			"a LF behind it":     {openGood, "\r\n\n" + openGood, runtime.CodeAmbiguousTarget},
			"a field and no end": {openGood, "\r\nHost: api.good.test\r\n\r\n", runtime.CodeInvalidInput},
		} {
			t.Run(string(engine)+" "+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
				r.upstream("api.good.test:443", answering(okAnswer))
				inside := r.open("api.good.test:443")
				inside.t = t
				if c.before != "" {
					inside.send(c.before)
					inside.get("GET")
					r.outcome()
				}
				inside.send(c.text)
				inside.refused(400, c.code)
				r.outcome()
				inside.ended()
			})
		}
	}
}
