package app_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// keeper is a service with actions that take secrets, in a body, a query and a path.
const keeper = `name: keeper
version: 1.0.0
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  set-secret: {description: Store a secret, method: PUT, path: /secrets, risk: {level: high}, args: [{name: name, required: true}, {name: text, secret: true}, {name: more, rest: true}]}
  revoke: {description: Revoke a token, method: POST, path: /revoke, risk: {level: high}, args: [{name: token, secret: true}], request: {query: {token: "{token}"}}}
  set-all: {description: Store secrets, method: PUT, path: /all, risk: {level: high}, args: [{name: secrets, rest: true, secret: true}]}
  find: {description: Find by secrets, method: GET, path: /find, risk: {level: high}, args: [{name: secrets, rest: true, secret: true}], request: {query: {}}}
  end-session: {description: End a session, method: DELETE, path: "/sessions/{token}", risk: {level: high}, args: [{name: token, required: true, secret: true}]}
  end-session-now: {description: End a session at once, method: DELETE, path: "/sessions/{token}:end", risk: {level: high}, args: [{name: token, required: true, secret: true}]}
`

// sendBody sends a request with a body and returns the answer.
func sendBody(t *testing.T, k *apptest.Kimbap, method, path string, body []byte, fields ...string) apptest.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+apptest.Host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	return apptest.Carry(t, k.Client(t, ""), req)
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whoever decides is shown no secret argument of a body, also where no rule looks at the body:
// not before, not after, and not beside the next question.
func TestNobodyWhoDecidesIsShownASecretOfABody(t *testing.T) {
	t.Parallel()
	const secret, other = "MySuperSecret-Pass1", "MyOtherSecret-Pass2"
	for name, c := range map[string]struct {
		method, path string
		body         func(value string) []byte
		fields       []string
		beside       string // what is shown
	}{
		"JSON": {"PUT", "/secrets", func(v string) []byte { return []byte(`{"name":"DB","text":"` + v + `","type":"x"}`) },
			[]string{"Content-Type", "application/json"}, `type: "x"`},
		"a form": {"PUT", "/secrets", func(v string) []byte { return []byte("name=DB&text=" + v + "&type=x") },
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, "type=x"},
		"packed JSON": {"PUT", "/secrets", func(v string) []byte { return packed(t, `{"name":"DB","text":"`+v+`","type":"x"}`) },
			[]string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, `type: "x"`},
		"a query": {"POST", "/revoke?token=", nil, nil, "token=[secret]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{Services: []string{keeper}})
			person := k.Open(t, "")
			for i, value := range []string{secret, other} {
				path, body := c.path+value, []byte(nil)
				if c.body != nil {
					path, body = c.path, c.body(value)
				}
				a := sendBody(t, k, c.method, path, body, c.fields...)
				id := a.Problem.Approval
				if a.Problem.Code != "approval_pending" || id == "" {
					t.Fatalf("%d %+v\n%s", a.Status, a.Problem, a.Body)
				}
				for _, full := range []bool{false, true} {
					shown, text, err := person.ShowApproval(t.Context(), id, full)
					if err != nil {
						t.Fatal(err)
					}
					for _, leak := range []string{secret, other} {
						if strings.Contains(text, leak) {
							t.Errorf("full %v: the secret is shown:\n%s", full, text)
						}
					}
					if !strings.Contains(text, c.beside) || strings.Contains(text, "HIDDEN") || len(shown.Args) == 0 {
						t.Errorf("full %v, arguments %v:\n%s", full, shown.Args, text)
					}
				}
				if i == 0 {
					if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
						t.Fatal(err)
					}
					if a = sendBody(t, k, c.method, path, body, c.fields...); a.Status != 200 {
						t.Errorf("with a yes: %d %+v", a.Status, a.Problem)
					}
				} else if _, err := person.Reject(t.Context(), id, "no"); err != nil {
					t.Fatal(err)
				}
				if _, text, err := person.ShowApproval(t.Context(), id, true); err != nil || strings.Contains(text, value) {
					t.Errorf("what stays of it: %v\n%s", err, text)
				}
			}
		})
	}
}

// A body in which secret arguments cannot be told from the others is not asked about.
func TestNobodyIsAskedAboutABodyWhoseSecretsCannotBeHidden(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{keeper}})
	const put = "PUT /secrets"
	const parts = "--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nsecret-in-parts\r\n--b--\r\n"
	for name, c := range map[string]struct {
		line       string
		body, kind string
		reason     string
		hint       string
	}{
		"parts":                   {put, parts, "multipart/form-data; boundary=b", "unsupported_media", "as JSON or as a form"},
		"text":                    {put, "text=secret", "text/plain", "unsupported_media", "as JSON or as a form"},
		"twice":                   {put, `{"text":"a","text":"b"}`, "application/json", "duplicate_key", "unambiguous"},
		"very long":               {put, `{"text":"` + strings.Repeat("s", 1<<20) + `"}`, "application/json", "body_too_large", "smaller"},
		"where the query has it":  {"POST /revoke", "kind=x&token=secret", "application/x-www-form-urlencoded", "ambiguous_parameter", "kimbap actions describe keeper.revoke"},
		"where the body has it":   {"PUT /secrets?text=secret", `{"name":"DB"}`, "application/json", "ambiguous_parameter", "kimbap actions describe keeper.set-secret"},
		"under a name of its own": {"PUT /all", `{"db":"secret"}`, "application/json", "ambiguous_parameter", "kimbap call"},
		"so in the query":         {"GET /find?db=secret", "", "", "ambiguous_parameter", "kimbap call"},
	} {
		method, path, _ := strings.Cut(c.line, " ")
		a := sendBody(t, k, method, path, []byte(c.body), "Content-Type", c.kind)
		if a.Problem.Code != "invalid_input" || a.Problem.Reason != c.reason || !strings.Contains(a.Problem.Hint, c.hint) {
			t.Errorf("%s: %d %+v", name, a.Status, a.Problem)
		}
	}
	if list, err := k.Open(t, "").ListApprovals(t.Context(), true); err != nil || len(list) != 0 {
		t.Errorf("somebody was asked: %+v, %v", list, err)
	}
}

// A yes to a request with a secret in its body is collected like any other, also where the
// rules let it through by then.
func TestAYesForASecretInABodyIsCollected(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{
		"asking still": "", "allowing": "version: 1\nrules: [{name: open, match: {action: keeper.set-secret}, then: allow}]\n",
	} {
		k := apptest.New(t, apptest.Options{Services: []string{keeper}})
		const body = `{"name":"DB","text":"secret-1"}`
		id := sendBody(t, k, "PUT", "/secrets", []byte(body), "Content-Type", "application/json").Problem.Approval
		if _, err := k.Open(t, "person").Accept(t.Context(), id, app.Yes{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if policy != "" {
			k.Write(t, "policy.yaml", policy)
		}
		if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil); err != nil || string(k.Up.Last(t).Body) != body {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nor is a secret argument of a path shown in a list, or kept beside what is sealed.
func TestNoListAndNoRowShowsASecretOfAPath(t *testing.T) {
	t.Parallel()
	const secret, written = "npm_pathsecret-42", "npm%5Fpathsecret-42"
	for _, path := range []string{"/sessions/" + secret, "/sessions/" + written, "/sessions/" + written + ":end"} {
		k := apptest.New(t, apptest.Options{Services: []string{keeper}})
		id := sendBody(t, k, "DELETE", path, nil).Problem.Approval
		person := k.Open(t, "")
		shown, text, err := person.ShowApproval(t.Context(), id, true)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list, err := person.ListApprovals(t.Context(), false)
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %+v, %v", path, list, err)
		}
		want := "DELETE " + apptest.Authority + "/sessions/[secret]"
		if list[0].Summary != want || shown.Summary != want {
			t.Errorf("%s: listed %q, shown %q", path, list[0].Summary, shown.Summary)
		}
		if !strings.Contains(text, "DELETE https://"+apptest.Authority+"/sessions/[secret]\n") {
			t.Errorf("%s:\n%s", path, text)
		}
		if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if a := sendBody(t, k, "DELETE", path, nil); a.Status != 200 {
			t.Errorf("%s with a yes: %d %+v", path, a.Status, a.Problem)
		}
		kept := map[string]string{"the log": k.Log.String()}
		addFiles(t, kept, k.Dir)
		for place, text := range kept {
			for _, leak := range []string{secret, written} {
				if strings.Contains(text, leak) {
					t.Errorf("%s: it is in %s", path, place)
				}
			}
		}
	}
}
