package witness

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// witnessed returns a witness that has seen a request come, what will leave for it,
// and the result it reads declarations from.
func witnessed(head, body string) (*Witness, *Leaving, *runtime.Result) {
	result := &runtime.Result{}
	line, rest, _ := strings.Cut(head, "\r\n")
	words := strings.Split(line, " ")
	call := &runtime.Call{
		Request: &runtime.Request{
			Target: runtime.Target{Scheme: "https", Authority: "a.test:443", Method: words[0], Path: words[1]},
			Raw:    &runtime.Raw{Head: []byte(line + "\r\n" + rest + "\r\n"), Header: http.Header{}},
		},
		Credential: runtime.Credential{Value: runtime.NewSecret("s3cret-Value")},
	}
	l := &Leaving{Host: "a.test", Authority: "a.test:443", Method: words[0], Target: words[1], Header: http.Header{}}
	if body != "" {
		call.Request.Raw.Body, call.Request.Raw.ContentLength = strings.NewReader(body), int64(len(body))
	}
	l.Framed, l.Length = body != "", int64(len(body))
	return New(call, result), l, result
}

func declared(kind runtime.ChangeKind, name string) runtime.Change {
	return runtime.Change{Kind: kind, Name: name}
}

// Each line is a request as it came, one as it is written, and what was
// declared; "" as difference means that the declaration explains all of it.
func TestUndeclaredChangesOfARequestAreFound(t *testing.T) {
	const came = "GET /p?a=1&key=x HTTP/1.1\r\nHost: a.test\r\nAccept: x\r\nAccept: y\r\nTe: trailers, gzip\r\nConnection: X-Named\r\nX-Named: n\r\nX-Kimbap-A: 1\r\nX-Api_Key: k\r\n"
	for name, c := range map[string]struct {
		edit    func(head string) string
		changes []runtime.Change
		differs string
	}{
		"nothing":                     {func(h string) string { return h }, nil, ""},
		"order of two names":          {replace("Te: trailers, gzip\r\nConnection: X-Named\r\n", "Connection: X-Named\r\nTe: trailers, gzip\r\n"), nil, ""},
		"case of a name":              {replace("Te:", "tE:"), nil, ""},
		"order of two values":         {replace("Accept: x\r\nAccept: y\r\n", "Accept: y\r\nAccept: x\r\n"), nil, "accept"},
		"joined values":               {replace("Accept: x\r\nAccept: y\r\n", "Accept: x, y\r\n"), nil, "accept"},
		"a value":                     {replace("Accept: y", "Accept: z"), nil, "accept"},
		"added":                       {replace("Accept: x", "User-Agent: go\r\nAccept: x"), nil, "user-agent"},
		"removed":                     {replace("Accept: x\r\nAccept: y\r\n", ""), nil, "accept"},
		"removed, told of another":    {replace("Accept: x\r\nAccept: y\r\n", ""), []runtime.Change{declared(runtime.ChangeHop, "Te")}, "accept"},
		"no hop-by-hop field":         {replace("Accept: x\r\nAccept: y\r\n", ""), []runtime.Change{declared(runtime.ChangeHop, "Accept")}, "accept"},
		"not named by Connection":     {replace("Accept: x\r\nAccept: y\r\n", ""), []runtime.Change{declared(runtime.ChangeNamed, "Accept")}, "accept"},
		"named by Connection":         {replace("X-Named: n\r\n", ""), []runtime.Change{declared(runtime.ChangeNamed, "X-Named")}, ""},
		"named, undeclared":           {replace("X-Named: n\r\n", ""), nil, "x-named"},
		"no field of ours":            {replace("X-Named: n\r\n", ""), []runtime.Change{declared(runtime.ChangeKimbap, "X-Named")}, "x-named"},
		"a field of ours":             {replace("X-Kimbap-A: 1\r\n", ""), []runtime.Change{declared(runtime.ChangeKimbap, "X-Kimbap-A")}, ""},
		"TE to trailers":              {replace("Te: trailers, gzip", "Te: trailers"), []runtime.Change{declared(runtime.ChangeHop, "Te")}, ""},
		"TE to something else":        {replace("Te: trailers, gzip", "Te: gzip"), []runtime.Change{declared(runtime.ChangeHop, "Te")}, "te"},
		"the caller's key, one name":  {replace("X-Api_Key: k\r\n", ""), []runtime.Change{declared(runtime.ChangeCallerKey, "X-Api-Key")}, "x-api_key"},
		"the caller's key":            {replace("X-Api_Key: k\r\n", ""), []runtime.Change{declared(runtime.ChangeCallerKey, "X-Api_Key")}, ""},
		"the credential":              {replace("Accept: x", "Authorization: Bearer s\r\nAccept: x"), []runtime.Change{declared(runtime.ChangeCredential, "Authorization")}, ""},
		"two credentials":             {replace("Accept: x", "Authorization: a\r\nAuthorization: b\r\nAccept: x"), []runtime.Change{declared(runtime.ChangeCredential, "Authorization")}, "authorization"},
		"the credential, undeclared":  {replace("Accept: x", "Authorization: Bearer s\r\nAccept: x"), nil, "authorization"},
		"the query":                   {replace("key=x", "key=s3cret"), []runtime.Change{declared(runtime.ChangeCredentialQuery, "key")}, ""},
		"another part of the query":   {replace("a=1&key=x", "a=2&key=s"), []runtime.Change{declared(runtime.ChangeCredentialQuery, "key")}, "the target"},
		"the segment":                 {replace("/p?", "/s3cret?"), []runtime.Change{declared(runtime.ChangeCredentialPath, "1")}, ""},
		"another segment":             {replace("/p?", "/s3cret?"), []runtime.Change{declared(runtime.ChangeCredentialPath, "2")}, "the target"},
		"a segment more":              {replace("/p?", "/s3cret/q?"), []runtime.Change{declared(runtime.ChangeCredentialPath, "1")}, "the target"},
		"the segment and the query":   {replace("/p?a=1", "/s3cret?a=2"), []runtime.Change{declared(runtime.ChangeCredentialPath, "1")}, "the target"},
		"the segment, undeclared":     {replace("/p?", "/s3cret?"), nil, "the target"},
		"the segment of an answer":    {replace("/p?", "/s3cret?"), []runtime.Change{{Kind: runtime.ChangeCredentialPath, Name: "1", Answer: true}}, "the target"},
		"the path":                    {replace("/p?", "/q?"), []runtime.Change{declared(runtime.ChangeCredentialQuery, "key")}, "the target"},
		"the method":                  {replace("GET", "PUT"), nil, "the method"},
		"Host":                        {replace("Host: a.test", "Host: a.test:443"), nil, "host"},
		"Host, canonical":             {replace("Host: a.test", "Host: a.test:443"), []runtime.Change{declared(runtime.ChangeHost, "Host")}, ""},
		"another Host":                {replace("Host: a.test", "Host: b.test"), []runtime.Change{declared(runtime.ChangeHost, "Host")}, "host"},
		"two Hosts":                   {replace("Host: a.test", "Host: a.test\r\nHost: a.test"), []runtime.Change{declared(runtime.ChangeHost, "Host")}, "host"},
		"a length":                    {replace("Accept: x", "Content-Length: 0\r\nAccept: x"), nil, "framing"},
		"a length, declared":          {replace("Accept: x", "Content-Length: 0\r\nAccept: x"), []runtime.Change{declared(runtime.ChangeFraming, "Content-Length")}, ""},
		"a declaration of the answer": {replace("Te: trailers, gzip\r\n", ""), []runtime.Change{{Kind: runtime.ChangeHop, Name: "Te", Answer: true}}, "te"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, result := witnessed(came, "")
			result.Changed = c.changes
			w.Lend()
			out, err := w.Outgoing([]byte(c.edit(came + "\r\n")))
			found(t, err, c.differs)
			if (err == nil) != (len(out) > 0) {
				t.Errorf("%d bytes left, with error %v", len(out), err)
			}
		})
	}
}

func replace(old, with string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, with, 1) }
}

// found checks that an error names the place that differs, and no value.
func found(t *testing.T, err error, place string) {
	t.Helper()
	if place == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if err == nil || runtime.CodeOf(err) != runtime.CodeInternal || !strings.Contains(err.Error(), place) {
		t.Errorf("got %v, want a difference at %s", err, place)
	}
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "s3cret") {
		t.Errorf("the error holds a value: %v", err)
	}
}

// The message is compared before anybody is asked for a connection.
func TestUndeclaredChangesOfAMessageAreFound(t *testing.T) {
	w, l, _ := witnessed("GET /p HTTP/1.1\r\nHost: a.test\r\nAccept: x\r\n", "")
	l.Header["Accept"] = []string{"x"}
	found(t, w.Judge(*l), "")
	w, l, _ = witnessed("GET /p HTTP/1.1\r\nHost: a.test\r\nAccept: x\r\n", "")
	found(t, w.Judge(*l), "accept")
	w, l, _ = witnessed("GET https://A.test/p HTTP/1.1\r\nHost: A.test\r\n", "")
	l.Target = "/p"
	found(t, w.Judge(*l), "the target")
	w, l, result := witnessed("GET https://A.test HTTP/1.1\r\nHost: A.test\r\n", "")
	l.Target = "/"
	result.Changed = []runtime.Change{declared(runtime.ChangeTarget, ""), declared(runtime.ChangeHost, "Host")}
	found(t, w.Judge(*l), "")
}

// A head leaves whole or not at all, a body only as it came.
func TestBodiesOfRequestsAreCompared(t *testing.T) {
	const head = "POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n"
	for name, c := range map[string]struct {
		read    int // bytes of the caller's body that were read
		writes  []string
		differs string
	}{
		"in pieces":       {4, []string{head, "\r", "\nbo", "dy"}, ""},
		"another body":    {4, []string{head + "\r\n", "bODy"}, "the body"},
		"ahead of time":   {2, []string{head + "\r\nbody"}, "the body"},
		"more after it":   {4, []string{head + "\r\nbody", "GET / HTTP/1.1\r\n\r\n"}, "follows the request"},
		"another framing": {4, []string{strings.Replace(head, "Content-Length: 4", "Transfer-Encoding: chunked", 1) + "\r\n4\r\nbody\r\n0\r\n\r\n"}, "framing"},
	} {
		t.Run(name, func(t *testing.T) {
			w, l, _ := witnessed(head, "body")
			found(t, w.Judge(*l), "")
			w.Lend()
			_, _ = io.ReadFull(w.call.Request.Raw.Body, make([]byte, c.read))
			var left bytes.Buffer
			var err error
			for _, text := range c.writes {
				var ready []byte
				if ready, err = w.Outgoing([]byte(text)); err != nil {
					break
				}
				left.Write(ready)
			}
			found(t, err, c.differs)
			if want := strings.Join(c.writes, ""); c.differs == "" && left.String() != want {
				t.Errorf("%q left, want %q", left.String(), want)
			}
			if c.differs == "" {
				found(t, w.Done(), "")
			}
		})
	}
}

// What the responder is given is held against the bytes that came.
func TestUndeclaredChangesOfAnAnswerAreFound(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: s3cret-Value\r\nConnection: keep-alive\r\nContent-Length: 4\r\n"
	whole := http.Header{"X-A": {"1", "s3cret-Value"}, "Connection": {"keep-alive"}, "Content-Length": {"4"}}
	with := func(edit func(h http.Header)) http.Header { h := whole.Clone(); edit(h); return h }
	hop := runtime.Change{Kind: runtime.ChangeHop, Name: "Connection", Answer: true}
	scrubbed := runtime.Change{Kind: runtime.ChangeScrubbed, Name: "X-A", Answer: true}
	for name, c := range map[string]struct {
		status  int
		header  http.Header
		body    string
		changes []runtime.Change
		differs string
	}{
		"nothing":              {200, whole, "body", nil, ""},
		"the status":           {201, whole, "body", nil, "the status"},
		"a field gone":         {200, with(func(h http.Header) { delete(h, "Connection") }), "body", nil, "connection"},
		"a field gone, told":   {200, with(func(h http.Header) { delete(h, "Connection") }), "body", []runtime.Change{hop}, ""},
		"a field added":        {200, with(func(h http.Header) { h["Date"] = []string{"now"} }), "body", nil, "date"},
		"the length gone":      {200, with(func(h http.Header) { delete(h, "Content-Length") }), "body", nil, "framing"},
		"scrubbed":             {200, with(func(h http.Header) { h["X-A"][1] = "************" }), "body", []runtime.Change{scrubbed}, ""},
		"scrubbed, not told":   {200, with(func(h http.Header) { h["X-A"][1] = "************" }), "body", nil, "x-a"},
		"scrubbed and changed": {200, with(func(h http.Header) { h["X-A"][1] = "***********z" }), "body", []runtime.Change{scrubbed}, "x-a"},
		"another body":         {200, whole, "bOdy", nil, "the body of the answer"},
		"a masked body":        {200, whole, "b**y", nil, "the body of the answer"},
		"a masked body, told":  {200, whole, "b**y", []runtime.Change{{Kind: runtime.ChangeScrubbedBody, Answer: true}}, ""},
		"half a body":          {200, whole, "bo", nil, "the end of the answer"},
		"more than the body":   {200, whole, "body!", nil, "the body of the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, result := witnessed("GET /p HTTP/1.1\r\nHost: a.test\r\n", "")
			result.Changed, w.secret = c.changes, "s3cret-value"
			w.Lend()
			w.Incoming([]byte("HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + head))
			w.Incoming([]byte("\r\nbody"))
			out := w.Watch(&runtimetest.Responder{})
			err := out.Start(c.status, c.header)
			if err == nil {
				_, err = out.Write([]byte(c.body))
			}
			if err == nil {
				err = w.Done()
			}
			found(t, err, c.differs)
			if !errors.Is(w.Fault(), err) {
				t.Errorf("the fault is %v", w.Fault())
			}
		})
	}
}

// A 1xx and trailers are compared too.
func TestUndeclaredChangesOfInterimsAndTrailersAreFound(t *testing.T) {
	start := func(changes ...runtime.Change) (*Witness, runtime.Responder) {
		w, _, result := witnessed("GET /p HTTP/1.1\r\nHost: a.test\r\n", "")
		result.Changed = changes
		w.Lend()
		w.Incoming([]byte("HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n"))
		return w, w.Watch(&runtimetest.Responder{})
	}
	_, out := start()
	found(t, out.Informational(103, http.Header{"Link": {"x"}}), "")
	_, out = start()
	found(t, out.Informational(103, http.Header{"Link": {"y"}}), "link")
	_, out = start()
	found(t, out.Informational(102, nil), "nobody gave")

	give := func(trailer http.Header, changes ...runtime.Change) error {
		w, out := start(append(changes, runtime.Change{Kind: runtime.ChangeHop, Name: "Transfer-Encoding", Answer: true})...)
		if err := out.Start(200, http.Header{"Trailer": {"X-Sum"}}); err != nil {
			return err
		}
		_, _ = out.Write([]byte("ok"))
		out.Trailer(trailer)
		return w.Done()
	}
	found(t, give(http.Header{"X-Sum": {"42"}}), "")
	found(t, give(http.Header{"X-Sum": {"43"}}), "x-sum")
	found(t, give(nil), "x-sum")
	found(t, give(nil, runtime.Change{Kind: runtime.ChangeTrailer, Name: "X-Sum", Answer: true}), "")
	found(t, give(http.Header{"X-Sum": {"42"}, "X-More": {"1"}}), "x-more")
}
