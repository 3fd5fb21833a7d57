package runtime_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// sent is a request to https://api.test with these fields: what Chromium sends, unless it
// says otherwise.
func sent(method string, fields ...string) *runtime.Request {
	header := http.Header{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		header[name] = append(header[name], value)
	}
	return &runtime.Request{
		Surface: runtime.SurfaceProxy, Raw: &runtime.Raw{Header: header},
		Target: runtime.Target{Scheme: "https", Authority: "api.test:443", Method: method, Path: "/"},
	}
}

func TestWhatAPageOfAnotherOriginSends(t *testing.T) {
	const evil, cross = "Origin: https://evil.test:9443", "Sec-Fetch-Site: cross-site"
	for name, c := range map[string]struct {
		req  *runtime.Request
		page string
	}{
		"a program":                      {sent("GET"), ""},
		"fetch of Node":                  {sent("GET", "Sec-Fetch-Mode: cors"), ""},
		"an address typed":               {sent("GET", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), ""},
		"fetch of the target's own page": {sent("POST", "Origin: https://api.test", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"), ""},
		"a link":                         {sent("GET", cross, "Sec-Fetch-Mode: navigate", "Sec-Fetch-User: ?1", "Sec-Fetch-Dest: document"), ""},
		"a link of the same site":        {sent("HEAD", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), ""},
		"its own WebSocket":              {sent("GET", "Upgrade: websocket", "Origin: https://api.test"), ""},
		"its own, with the port":         {sent("GET", "Upgrade: websocket", "Origin: HTTPS://API.test:443"), ""},

		"fetch":               {sent("GET", evil, cross, "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"), "https://evil.test:9443"},
		"fetch in the site":   {sent("GET", "Origin: https://app.test", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"), "https://app.test"},
		"an image":            {sent("GET", cross, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"), "another origin"},
		"a frame":             {sent("GET", cross, "Sec-Fetch-Mode: navigate", "Sec-Fetch-User: ?1", "Sec-Fetch-Dest: iframe"), "another origin"},
		"a form":              {sent("POST", evil, cross, "Sec-Fetch-Mode: navigate", "Sec-Fetch-User: ?1", "Sec-Fetch-Dest: document"), "https://evil.test:9443"},
		"a beacon":            {sent("POST", evil, cross, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: empty"), "https://evil.test:9443"},
		"a WebSocket":         {sent("GET", "Upgrade: websocket", evil), "https://evil.test:9443"},
		"of a sandboxed page": {sent("GET", "Upgrade: websocket", "Origin: null"), "null"},
		"of cleartext":        {sent("GET", "Origin: http://api.test"), "http://api.test"},
		"of another port":     {sent("GET", "Origin: https://api.test:8443"), "https://api.test:8443"},
		"of a longer name":    {sent("GET", "Origin: https://api.test.evil.test"), "https://api.test.evil.test"},
		"no name":             {sent("GET", "Origin: ", cross), "another origin"},
		"two origins":         {sent("GET", "Origin: https://api.test", evil), "another origin"},
		"two sites":           {sent("GET", "Sec-Fetch-Site: same-origin", cross), "another origin"},
		"a site to come":      {sent("GET", "Sec-Fetch-Site: same-realm", evil), "https://evil.test:9443"},
	} {
		if page := c.req.Page(); page != c.page {
			t.Errorf("%s: %q, want %q", name, page, c.page)
		}
	}
}

// A page of another origin gets no key, and no person is asked on its behalf. For a program,
// both are so.
func TestAPageOfAnotherOriginGetsNoKeyAndAsksNobody(t *testing.T) {
	effect := runtime.EffectAllow
	var used []bool
	s := &runtimetest.Stages{
		OnDecide: func(runtime.Question) runtime.Verdict { return runtime.Verdict{Effect: effect, Rule: "default:high"} },
		OnExecute: func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
			used = append(used, call.Credential.Found())
			if err := call.Again(ctx); err != nil { // as a backend does before it sends once more
				return runtime.Result{}, err
			}
			used = append(used, call.Credential.Found())
			return runtime.Result{Status: 200}, nil
		},
	}
	p := pipeline(t, s)
	page := func() *runtime.Request {
		return sent("POST", "Origin: https://evil.test", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors")
	}
	for _, req := range []*runtime.Request{page(), sent("POST")} {
		if err := p.Do(t.Context(), req, &runtimetest.Responder{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []bool{false, false, true, true}; !slices.Equal(used, want) {
		t.Errorf("keys went out: %v, want %v", used, want)
	}
	effect = runtime.EffectAsk
	e := runtime.AsError(p.Do(t.Context(), page(), &runtimetest.Responder{}))
	if e.Code != runtime.CodeForbidden || e.Reason != runtime.ReasonOtherPage || !strings.Contains(e.Msg, "https://evil.test") {
		t.Errorf("%+v", e)
	}
	if slices.Contains(s.Events(), "await") {
		t.Errorf("somebody was asked: %v", s.Events())
	}
}
