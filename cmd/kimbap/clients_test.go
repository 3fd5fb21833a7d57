//go:build linux

package main

import (
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// acmeKey is the credential that only kimbap holds.
const acmeKey = "acme-canary-5f2c9a71d4e8b603"

// TestClientsSeeNoDifference runs every client twice: straight to the upstream,
// and through kimbap. What the client got must be the same, and so must what
// the upstream got, but for the key.
func TestClientsSeeNoDifference(t *testing.T) {
	w := newWorld(t)
	stub := newAcme(t)
	api := w.serve(t, "api.acme.example", stub)
	h := w.newHome(t)
	check(t, os.WriteFile(filepath.Join(h.user, "up.bin"), stub.blob, 0o644))
	service, err := filepath.Abs("testdata/clients/acme.yaml")
	check(t, err)
	h.kimbap(t, "", "service", "install", service)
	h.kimbap(t, acmeKey+"\n", "link", "acme", "--no-check")
	shell := h.proxied(t)
	straight := append(slices.Clone(h.env),
		"CURL_CA_BUNDLE="+w.roots, "REQUESTS_CA_BUNDLE="+w.roots, "NODE_EXTRA_CA_CERTS="+w.roots)

	for _, c := range clients(t, w) {
		t.Run(c.name, func(t *testing.T) {
			needProgram(t, c.missing)
			argv := append(slices.Clone(c.argv), "https://api.acme.example", stub.control.URL, h.user)
			argv = append(argv, c.cases...)
			api.h2.Store(true) // so that a client speaks what it would rather speak, both times
			defer api.h2.Store(false)
			direct := watch(t, api, func() result { return h.exec(t, append(slices.Clone(straight), c.own...), "", argv...) })
			direct.holdsToItself(t, c)
			t.Run("run", func(t *testing.T) {
				through := watch(t, api, func() result { return h.run(t, argv...) })
				through.differsOnlyInKey(t, direct)
			})
			t.Run("proxy and env", func(t *testing.T) {
				api.h2.Store(false) // the two sides need not speak the same
				through := watch(t, api, func() result { return h.exec(t, shell, "", argv...) })
				through.differsOnlyInKey(t, direct)
			})
		})
	}
	h.holdsNoKey(t, acmeKey)
}

// observed is one run of a client, seen from both of its ends.
type observed struct {
	cases       map[string][]string // what the client printed, sorted, per case
	requests    []request
	connections int
}

func watch(t *testing.T, u *upstream, run func() result) observed {
	t.Helper()
	u.take()
	r := run()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	o := observed{cases: map[string][]string{}}
	o.requests, o.connections = u.take()
	name := ""
	for line := range strings.Lines(r.stdout) {
		line = strings.TrimSpace(line)
		if next, ok := strings.CutPrefix(line, "== "); ok {
			name = next
		} else if !betweenNeighbours(line) {
			o.cases[name] = append(o.cases[name], line)
		}
	}
	for name, lines := range o.cases {
		if name != "stream" {
			slices.Sort(lines)
		}
	}
	return o
}

// betweenNeighbours are the answer's fields that belong to one connection (RFC
// 9110, section 7.6.1), and the time.
func betweenNeighbours(line string) bool {
	for _, name := range []string{"connection", "keep-alive", "transfer-encoding", "date"} {
		if strings.HasPrefix(line, "header "+name+" ") {
			return true
		}
	}
	return false
}

// holdsToItself makes sure that the comparison compares something.
func (o observed) holdsToItself(t *testing.T, c client) {
	t.Helper()
	want := map[string]string{
		"get": "status 200", "json": "status 201", "form": "status 201", "missing": "status 404", "broken": "status 500",
		"reply": "header content-encoding gzip", "down": fmt.Sprintf("size %d", blobSize), "up": "status 201", "reuse": "ok 100",
	}
	if said := connections(o.cases["reuse"]); c.oneConn && (said > 1 || said < 0 && o.connections != 1) {
		t.Errorf("reuse: %q, and the upstream saw %d connections, want one", o.cases["reuse"], o.connections)
	}
	for _, name := range c.cases {
		if line := want[name]; line != "" && !slices.Contains(o.cases[name], line) {
			t.Errorf("%s: %q, want %q among them", name, o.cases[name], line)
		}
	}
	var all []string
	for n := range events {
		all = append(all, fmt.Sprintf("event %d", n))
	}
	if !slices.Equal(o.cases["stream"], all) {
		t.Errorf("stream: %q, want %q", o.cases["stream"], all)
	}
}

// connections reads how many a client says it made; -1 when it does not say.
func connections(lines []string) int {
	n := -1
	for _, line := range lines {
		if count, ok := strings.CutPrefix(line, "connections "); ok {
			n, _ = strconv.Atoi(count)
		}
	}
	return n
}

func (o observed) differsOnlyInKey(t *testing.T, direct observed) {
	t.Helper()
	for name, want := range direct.cases {
		if got := o.cases[name]; !slices.Equal(got, want) {
			t.Errorf("%s: the client got\n  %s\nand without kimbap\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	if len(o.requests) != len(direct.requests) {
		t.Fatalf("the upstream got %d requests, and %d without kimbap", len(o.requests), len(direct.requests))
	}
	for i, got := range o.requests {
		if key := got.Header.Values("Authorization"); !slices.Equal(key, []string{"Bearer " + acmeKey}) {
			t.Errorf("%s %s: Authorization is %q, want the stored key", got.Method, got.Target, key)
		}
		if g, w := got.text(), direct.requests[i].text(); g != w {
			t.Errorf("the upstream got\n%s\nand without kimbap\n%s", g, w)
		}
	}
	// Not more than the client would make itself, because connections are pooled;
	// but one that carries Expect: 100-continue carries nothing else.
	most := direct.connections
	for _, r := range o.requests {
		if r.Header.Get("Expect") != "" {
			most++
		}
	}
	if o.connections > most {
		t.Errorf("the upstream got %d connections, and %d without kimbap", o.connections, direct.connections)
	}
}

// text writes a request for comparison: without what belongs to one connection,
// and without the key.
func (r request) text() string {
	header := r.Header.Clone()
	for _, list := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			header.Del(textproto.TrimString(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Upgrade", "Authorization"} {
		header.Del(name)
	}
	// Java's says that a GET has no body, which says nothing (RFC 9110, section
	// 8.6); net/http leaves it out.
	if r.Method == http.MethodGet && header.Get("Content-Length") == "0" {
		header.Del("Content-Length")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %s %s host=%s length=%d\n", r.Method, r.Target, r.Host, r.Length)
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: %q\n", http.CanonicalHeaderKey(name), header[name])
	}
	return b.String() + "  " + r.Body
}
