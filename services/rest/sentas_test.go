package rest_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// sentAs has actions that the path, the query, a field and a body tell from each other.
const sentAs = `
name: sent
version: 1.0.0
base_url: http://HOST/v1
auth: AUTH
actions:
  rename:
    method: POST
    path: PREFIX/members
    risk: {level: low}
    args: [{name: prefix}, {name: role}, {name: more, rest: true}]
    request: {body: {title: "{prefix}: {role}"}}
  promote:
    method: [POST, PUT, DELETE]
    path: PREFIX/members
    match: {body: {/role: admin}}
    risk: {level: critical}
    args: [{name: role}]
  text:
    method: POST
    path: PREFIX/texts
    risk: {level: low}
    args: [{name: kind, default: text/plain}, {name: input}]
    request: {headers: {Content-Type: "{kind}"}, body: "{input}", body_type: raw}
  text-as:
    method: POST
    path: PREFIX/texts
    match: {body: {/role: admin}}
    risk: {level: critical}
  form:
    method: PUT
    path: PREFIX/members
    risk: {level: low}
    args: [{name: title}, {name: tags, type: array}, {name: more, rest: true}]
    request: {body: {title: "{title}", tags: "{tags}"}, body_type: form}
  parts:
    method: POST
    path: PREFIX/parts
    risk: {level: low}
    args: [{name: file}, {name: tags, type: array}, {name: more, rest: true}]
    request: {body: {file: "{file}", tags: "{tags}"}, body_type: multipart}
  parts-previewed:
    method: POST
    path: PREFIX/parts
    match: {query: {preview: "*"}}
    risk: {level: low}
    args: [{name: preview, required: true}, {name: more, rest: true}]
    request: {query: {preview: "{preview}"}, body_type: multipart}
  note:
    method: GET
    path: PREFIX/note
    risk: {level: low}
    args: [{name: kind}, {name: sudo}]
    request: {headers: {X-What: "{kind} {sudo}"}}
  note-as:
    method: GET
    path: PREFIX/note
    match: {header: {Sudo: "*"}}
    risk: {level: critical}
    args: [{name: sudo, required: true}]
    request: {headers: {Sudo: "{sudo}"}}
  preview:
    method: DELETE
    path: PREFIX/files
    match: {query: {preview: "*"}}
    risk: {level: low}
    args: [{name: more, rest: true}]
  delete:
    method: DELETE
    path: PREFIX/files
    risk: {level: high}
  find:
    method: GET
    path: PREFIX/find/{where}
    risk: {level: low}
    args: [{name: where}, {name: by, type: object}]
    request: {query: {by: "{by}"}}
  find-all:
    method: GET
    path: PREFIX/find/{where}
    match: {query: {by: '{"name":"<>"}'}}
    args: [{name: where}]
    risk: {level: high}
  find-admin:
    method: GET
    path: PREFIX/find/admin
    risk: {level: critical}
  read:
    method: GET
    path: PREFIX/read/{path...}
    risk: {level: low}
    args: [{name: path}]
  read-key:
    method: GET
    path: PREFIX/read/keys/{id:int}
    risk: {level: critical}
`

// sentRig is an upstream that keeps what comes, and a service that is there.
type sentRig struct {
	*rig
	set *services.Set
}

func newSentRig(t *testing.T, auth string) *sentRig {
	t.Helper()
	r := newRig(t, servicestest.Options{Cleartext: true})
	prefix := ""
	if strings.Contains(auth, "segment") {
		prefix = "/{token}"
	}
	text := strings.NewReplacer("HOST", r.Authority, "AUTH", auth, "PREFIX", prefix).Replace(sentAs)
	return &sentRig{r, servicestest.Set(t, "sent.yaml", text)}
}

// send sends what the resolver makes of the arguments, if it takes them, and holds what
// arrives to that.
func (r *sentRig) send(t testing.TB, ref runtime.Ref, args runtime.Args) (taken bool) {
	t.Helper()
	found, err := r.set.Resolve(&runtime.Request{Action: ref, Args: args})
	if err != nil {
		return false
	}
	call := &runtime.Call{
		Request: &runtime.Request{Surface: runtime.SurfaceCall, Action: ref, Args: args, Caller: runtime.Caller{Peer: runtime.Peer{Owner: true}}},
		Action:  found.Action, Args: found.Args, Built: found.Built,
		Credential: runtime.Credential{Name: "sent.token", Version: 1, Value: runtime.NewSecret(placedCanary), Authorities: []string{r.Authority}},
	}
	if _, err := r.backend.Execute(t.Context(), call, &runtimetest.Responder{}); err != nil {
		t.Fatalf("%s with %v was judged and is not sent: %v", ref, args, err)
	}
	got, built := r.Last(t), found.Built
	switch found.Action.Auth.Type {
	case runtime.AuthBearer: // the credential is in neither
		if got.Target != built.Target || !bytes.Equal(got.Body, built.Body) {
			t.Fatalf("%s with %v was judged as %s %q, and sent as %s %q", ref, args, built.Target, built.Body, got.Target, got.Body)
		}
	}
	for name, list := range built.Header {
		if sent := got.Header[name]; !slices.Equal(sent, list) {
			t.Fatalf("%s with %v: the field %s was judged as %q, and sent as %q", ref, args, name, list, sent)
		}
	}
	if action, err := r.asProxy(got); err != nil || action != string(ref) {
		t.Fatalf("%s with %v is sent as %q: %s\n%s (%v)", ref, args, action, got.Head, got.Body, err)
	}
	return true
}

// asProxy recognises a request as the proxy does one of a program's.
func (r *sentRig) asProxy(q servicestest.Request) (string, error) {
	header := http.Header(q.Header)
	in := classifier.Input{Scheme: "http", Authority: r.Authority, Method: q.Method, Target: q.Target, Header: header}
	m, err := r.set.Table().Match(in)
	reads := slices.Contains([]string{"GET", "HEAD", "DELETE"}, q.Method) && len(q.Body) > 0 && classifier.HasParameters(q.Method, header["Content-Type"])
	if err == nil && (m.NeedBody || reads) {
		if in.Body, err = classifier.ParseBody(header.Get("Content-Type"), "", q.Body); err == nil {
			m, err = r.set.Table().Match(in)
		}
	}
	if err != nil || in.Body != nil || len(q.Body) == 0 {
		return m.Action, err
	}
	watch := classifier.WatchWords(header["Content-Type"], m.Words...)
	if q.Method == http.MethodPost {
		watch = classifier.WatchOverride(header["Content-Type"], m.Words...)
	}
	if watch != nil {
		if err = watch.Look(q.Body); err == nil {
			err = watch.End()
		}
	}
	return m.Action, err
}

// placedCanary is a credential that can be a segment of a path as it is.
const placedCanary = "kbcanary-5d2e8b-Q81w"

const sentBearer = "{type: bearer, credential_ref: sent.token}"

// A request that is built is the action that was judged, whichever arguments are given;
// otherwise there is none.
func TestWhatIsBuiltIsWhatWasJudged(t *testing.T) {
	r := newSentRig(t, sentBearer)
	for _, c := range []struct {
		action runtime.Ref
		args   runtime.Args
		none   bool
	}{
		{"sent.rename", runtime.Args{"prefix": "a", "role": "admin"}, false},
		{"sent.rename", runtime.Args{"prefix": "a", "role": "admin", "other": "x"}, false},
		{"sent.promote", runtime.Args{"role": "admin"}, false},
		{"sent.text", runtime.Args{"input": `{"role":"admin"}`, "kind": "application/json"}, true},
		{"sent.text", runtime.Args{"input": `{"role":"guest"}`, "kind": "application/json"}, false},
		{"sent.form", runtime.Args{"title": "&role=admin"}, false},
		{"sent.parts", runtime.Args{"file": map[string]any{"filename": "a.txt", "content": "x"}}, false},
		{"sent.parts", runtime.Args{"file": map[string]any{"filename": "a.txt", "content": "x"}, "_method": "PUT"}, true},
		{"sent.parts-previewed", runtime.Args{"preview": "1", "file": "x"}, false},
		{"sent.note", runtime.Args{"kind": "a", "sudo": "root"}, false},
		{"sent.note", runtime.Args{"sudo": "root"}, true}, // it would be sent without
		{"sent.note-as", runtime.Args{"sudo": "root"}, false},
		{"sent.preview", runtime.Args{"preview": "1"}, false},
		{"sent.preview", runtime.Args{"preview": nil}, true},
		{"sent.preview", runtime.Args{"preview": []any{}}, true},
		{"sent.preview", runtime.Args{"preview": []any{nil}}, false},
		{"sent.find", runtime.Args{"where": "a", "by": map[string]any{"name": "a&b"}}, false},
		{"sent.find", runtime.Args{"where": "a", "by": map[string]any{"name": "<>"}}, true}, // it is sent as find-all
		{"sent.find", runtime.Args{"where": "admin"}, true},
		{"sent.read", runtime.Args{"path": "a/b"}, false},
		{"sent.read", runtime.Args{"path": "keys/1"}, true},
	} {
		if taken := r.send(t, c.action, c.args); taken == c.none {
			t.Errorf("%s with %v is taken: %v", c.action, c.args, taken)
		}
	}
}

// The same holds for arguments that nobody has thought of, wherever the credential stands.
func TestWhatIsSentIsWhatWasJudgedOfAnyArguments(t *testing.T) {
	texts := []string{
		"", "a", "admin", "guest", " x", "a b", "é", ".", "..", "a/b", "keys/1", "KEYS/1", "a;b", "%2e%2e", "a?b#c", "{role}", "&role=admin", "a&role=admin&b",
		`{"role":"admin"}`, `{"role":"guest"}`, "role=admin", "role=guest", "_method=DELETE", `{"_method":"DELETE"}`, "\r\n", "x\x00", "--\r\nContent-Disposition: form-data; name=role\r\n\r\nadmin",
	}
	kinds := []string{
		"application/json", "application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-16", "application/vnd.x+json",
		"multipart/form-data; boundary=x", "application/json, application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-16", "",
	}
	names := []string{"role", "Role", "role[]", "preview", "Preview", "_method", "title", "titles", "x", "tags.0", "file", "sent key"}
	for name, auth := range map[string]string{
		"bearer": sentBearer,
		"query":  "{type: query, query: {name: key}, credential_ref: sent.token}",
		"body":   "{type: body, body: {field: key}, credential_ref: sent.token}",
		"path":   "{type: path, path: {segment: token, prefix: bot}, credential_ref: sent.token}",
	} {
		t.Run(name, func(t *testing.T) {
			r := newSentRig(t, auth)
			actions := slices.DeleteFunc(slices.Clone(r.set.Services()[0].Actions), func(a *runtime.Action) bool {
				return a.Auth.Type == runtime.AuthBody && !slices.Contains([]string{"json", "form", "multipart"}, a.HTTP.BodyType)
			})
			sent, refused := 0, 0
			var value func(t *rapid.T, deep int) any
			value = func(t *rapid.T, deep int) any {
				switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
				case kind == 0:
					return nil
				case kind == 1 && deep < 2:
					return []any{value(t, deep+1), value(t, deep+1)}
				case kind == 2 && deep < 2:
					return map[string]any{rapid.SampledFrom(names).Draw(t, "member"): value(t, deep+1)}
				case kind == 3 && deep < 2:
					return map[string]any{"filename": rapid.SampledFrom(texts).Draw(t, "filename"), "content": rapid.SampledFrom(texts).Draw(t, "content")}
				}
				return rapid.SampledFrom(texts).Draw(t, "text")
			}
			rapid.Check(t, func(rt *rapid.T) {
				action := rapid.SampledFrom(actions).Draw(rt, "action")
				args := runtime.Args{}
				for _, p := range action.Params {
					if !p.Required && !rapid.Bool().Draw(rt, "given") {
						continue
					}
					switch {
					case p.Name == action.Rest:
						args[rapid.SampledFrom(names).Draw(rt, "undeclared")] = value(rt, 0)
					case p.Name == "kind":
						args[p.Name] = rapid.SampledFrom(kinds).Draw(rt, "type")
					case p.Type == runtime.TypeArray:
						args[p.Name] = []any{value(rt, 1)}
					case p.Type == runtime.TypeObject:
						args[p.Name] = map[string]any{"name": value(rt, 1)}
					default:
						args[p.Name] = rapid.SampledFrom(texts).Draw(rt, "value")
					}
				}
				if r.send(sentTB{t, rt}, action.Ref, args) {
					sent++
				} else {
					refused++
				}
			})
			if sent == 0 || refused == 0 {
				t.Errorf("%d were sent and %d refused", sent, refused)
			}
		})
	}
}

// sentTB is the test whose failures rapid makes smaller.
type sentTB struct {
	testing.TB
	rt *rapid.T
}

// Fatalf implements [testing.TB].
func (t sentTB) Fatalf(format string, args ...any) { t.rt.Fatalf(format, args...) }
