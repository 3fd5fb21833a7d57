package catalog_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// exchange is one request of a testdata file and what it must be recognised as.
//
//	title
//	  METHOD URL → action risk name=value …
//	    json|form BODY
type exchange struct {
	where, title string
	in           classifier.Input
	media, body  string
	action, risk string
	args         []string
}

// What ordinary tools send stays out of the way.
func TestEverydayTrafficNeedsNobody(t *testing.T) {
	set := load(t)
	for _, e := range exchanges(t, "everyday.txt") {
		if a := e.check(t, set); a != nil && above(a.Risk, runtime.RiskMedium) {
			t.Errorf("%s: %s: %s is %s, and people do it every day", e.where, e.title, a.Ref, a.Risk)
		}
	}
}

func TestGuardedTrafficIsAboveMedium(t *testing.T) {
	set := load(t)
	for _, e := range exchanges(t, "guarded.txt") {
		if a := e.check(t, set); a != nil && !above(a.Risk, runtime.RiskMedium) {
			t.Errorf("%s: %s: %s is %s, and a human should see it", e.where, e.title, a.Ref, a.Risk)
		}
	}
}

// check classifies as the proxy does: the body is read when the head does not
// say enough. A body that is there is read back too, as a policy may ask for it.
func (e *exchange) check(t *testing.T, set *services.Set) *runtime.Action {
	t.Helper()
	m, err := set.Table().Match(e.in)
	if err == nil && (m.NeedBody || e.body != "") {
		if e.in.Body, err = classifier.ParseBody(e.media, "", []byte(e.body)); err == nil {
			headOnly := m
			m, err = set.Table().Match(e.in)
			if err == nil && !headOnly.NeedBody && headOnly.Action != m.Action {
				t.Errorf("%s: %s without its body is %s", e.where, m.Action, headOnly.Action)
			}
		}
	}
	a, ok := set.Action(m.Action)
	if err != nil || !ok || m.Action != e.action || string(a.Risk) != e.risk {
		t.Errorf("%s: %s: %s %s is %s, want %s at %s: %v", e.where, e.title, e.in.Method, e.in.Target, describe(a), e.action, e.risk, err)
		return nil
	}
	for _, arg := range e.args {
		name, want, _ := strings.Cut(arg, "=")
		if got := fmt.Sprint(m.Args[name]); got != want {
			t.Errorf("%s: argument %s is %q, want %q", e.where, name, got, want)
		}
	}
	e.resolve(t, set, a, m)
	return a
}

func (e *exchange) resolve(t *testing.T, set *services.Set, a *runtime.Action, m classifier.Match) {
	t.Helper()
	req := &runtime.Request{
		Action: a.Ref, Args: m.Args, Query: m.Query, Raw: &runtime.Raw{Header: e.in.Header},
		Target: runtime.Target{Scheme: "https", Authority: e.in.Authority, Method: e.in.Method, Path: e.in.Target},
	}
	if _, err := set.Resolve(req); err != nil {
		t.Errorf("%s: %s: %v", e.where, a.Ref, err)
	}
}

// A part of an upload names the upload. An empty name is none: the request may begin one, and
// say who reads it or that it is in the bin, which is more than to go on with it.
func TestAPartOfAnUploadNamesIt(t *testing.T) {
	set := load(t)
	for _, address := range []string{
		"POST https://storage.googleapis.com/upload/storage/v1/b/b/o", "POST https://www.googleapis.com/upload/storage/v1/b/b/o",
		"PUT https://www.googleapis.com/upload/drive/v3/files/f", "PUT https://www.googleapis.com/upload/drive/v2/files/f",
		"PUT https://www.googleapis.com/resumable/upload/drive/v3/files/f", "PUT https://www.googleapis.com/resumable/upload/drive/v2/files/f",
	} {
		for id, named := range map[string]bool{"=ABPtcPq7_x-y": true, "": false, "=": false, "=+": false, "=%20%20%20%20%20%20%20%20%20": false, "=%0aABPtcPq7_x-y": false} {
			e := parse(t, address, id, address+"?uploadType=resumable&upload_id"+id+" → - -")
			m, err := set.Table().Match(e.in)
			if a, ok := set.Action(m.Action); err == nil && ok {
				_, err = set.Resolve(&runtime.Request{
					Action: a.Ref, Args: m.Args, Query: m.Query, Raw: &runtime.Raw{Header: e.in.Header},
					Target: runtime.Target{Scheme: "https", Authority: e.in.Authority, Method: e.in.Method, Path: e.in.Target},
				})
			}
			if (err == nil) != named {
				t.Errorf("%s with upload_id%s: %s, %v", address, id, m.Action, err)
			}
		}
	}
}

func exchanges(t *testing.T, file string) []exchange {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out []exchange
	title := ""
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case strings.HasPrefix(line, "    "):
			last := &out[len(out)-1]
			kind, body, _ := strings.Cut(strings.TrimSpace(line), " ")
			last.media, last.body = map[string]string{"json": "application/json", "form": "application/x-www-form-urlencoded"}[kind], body
		case strings.HasPrefix(line, "  "):
			out = append(out, parse(t, fmt.Sprintf("%s:%d", file, i+1), title, line))
		default:
			title = line
		}
	}
	if len(out) < 20 {
		t.Fatalf("%s holds %d requests", file, len(out))
	}
	return out
}

func parse(t *testing.T, where, title, line string) exchange {
	t.Helper()
	request, result, ok := strings.Cut(strings.TrimSpace(line), " → ")
	method, address, ok2 := strings.Cut(request, " ")
	words := strings.Fields(result)
	u, err := url.Parse(address)
	if !ok || !ok2 || len(words) < 2 || err != nil {
		t.Fatalf("%s: not METHOD URL → action risk: %v", where, err)
	}
	return exchange{
		where: where, title: title, action: words[0], risk: words[1], args: words[2:],
		in: classifier.Input{
			Scheme: "https", Authority: u.Host + ":443", Method: method, Header: http.Header{},
			Target: strings.TrimPrefix(address, "https://"+u.Host),
		},
	}
}

// Wrangler sends the key of an upload, which an answer handed out, back as it came:
// the stored one is none for it.
func TestUploadKeysOfCloudflareAreKept(t *testing.T) {
	s := service(t, load(t), "cloudflare")
	if !s.Auth.KeepIf.Match("eyJhbGciOiJFUzI1NiJ9.eyJoYXNoZXMiOltdfQ.c2ln") {
		t.Error("the key of an upload is replaced by the stored one")
	}
	for variable, placeholder := range s.Placeholders {
		if s.Auth.KeepIf.Match(placeholder) {
			t.Errorf("the placeholder %s is kept", variable)
		}
	}
}

// Where Datadog takes logs in, only an API key counts, and the stored key is none: no service
// has that host, so that the key is not shown to it.
func TestTheIntakeOfDatadogIsShownNoKey(t *testing.T) {
	m, err := load(t).Table().Match(classifier.Input{
		Scheme: "https", Authority: "http-intake.logs.datadoghq.com:443", Method: "POST", Target: "/api/v2/logs", Header: http.Header{},
	})
	if m.Service != "" || m.Action != "" {
		t.Errorf("it is %q of %q: %v", m.Action, m.Service, err)
	}
}
