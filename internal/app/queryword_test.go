package app_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const wordService = `name: words
version: 1.0.0
description: One path and a word, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  list:   {description: List,   method: [GET, POST, PUT], path: /query, match: {query: {Action: ListUsers}},  risk: {level: low}}
  delete: {description: Delete, method: [GET, POST, PUT], path: /query, match: {query: {Action: DeleteUser}}, risk: {level: critical}}
  set:    {description: Set, method: POST, path: /set, match: {query: {Action: Set}},  risk: {level: low},  args: [{name: value, type: string, required: true}]}
  soft:   {description: Set softly, method: POST, path: /set, match: {query: {Action: Set}, body: {/mode: soft}}, risk: {level: low}}
  unset:  {description: Unset, method: POST, path: /set, match: {query: {Action: Unset}}, risk: {level: high}}
  other:  {description: Other,  method: [GET, POST, PUT], path: /query, risk: {level: low}}
`

// A word of the query that decides may stand in no form or document beside it, in whatever
// spelling: frameworks read both, and most of them the body first.
func TestAWordOfTheQueryIsNotAnotherInTheForm(t *testing.T) {
	t.Parallel()
	const form, parts, json = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/json"
	const ambiguous, unread = runtime.ReasonAmbiguousParameter, runtime.ReasonUnsupportedMedia
	utf16 := strings.Join(strings.Split(`{"Action": "DeleteUser"}`, ""), "\x00") + "\x00"
	k := apptest.New(t, apptest.Options{Services: []string{wordService}})
	for _, c := range []struct {
		method, target, media, body string
		want                        int
		reason                      runtime.Reason
		path                        string // /query when empty
	}{
		{"POST", "?Action=ListUsers", form, "Action=DeleteUser&UserName=alice", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", form, "UserName=alice&Action%5B%5D=DeleteUser", 400, ambiguous, ""},
		{"POST", "", form, "Action=DeleteUser&UserName=alice", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", form, "a=b;Action=DeleteUser", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", "", "Action=DeleteUser", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", parts, "--b\r\nContent-Disposition: form-data; name=\"Action\"\r\n\r\nDeleteUser\r\n--b--\r\n", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", form, "x=1&Action[" + strings.Repeat("A", 5000) + "]=DeleteUser", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", form, "x=1&Action%00" + strings.Repeat("A", 5000) + "=DeleteUser", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", form, "x=1&" + strings.Repeat("+", 5000) + "Action=DeleteUser", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", parts, "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name=\"Action\"\r\n\r\nDeleteUser\r\n--b--\r\n", 400, ambiguous, ""},
		{"PUT", "?Action=ListUsers", form, "UserName=alice&Action=DeleteUser", 400, ambiguous, ""},
		{"PUT", "?Action=ListUsers", form, "UserName=alice&_method=DELETE", 200, "", ""}, // nobody looks for a method there
		{"PUT", "?Action=ListUsers", parts, "--b\r\nContent-Disposition: form-data; name=\"Action\"\r\n\r\nDeleteUser\r\n--b--\r\n", 400, ambiguous, ""},
		{"PUT", "?Action=ListUsers", json, `{"Action": "DeleteUser"}`, 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", json, `{"UserName": "alice", "\u0041ction": "DeleteUser"}`, 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", json, `{"a": {"Action": "DeleteUser"}, "b": "Action", "c": ["Action"]}`, 200, "", ""},
		{"POST", "", json, `{"action": "DeleteUser"}`, 400, ambiguous, ""},
		{"POST", "?Action=Set", json, `{"mode": "soft", "Action": "Unset"}`, 400, ambiguous, "/set"}, // its body is judged
		{"POST", "?Action=Set", json, `{"mode": "soft"}`, 200, "", "/set"},
		{"POST", "?Action=ListUsers", form, ` {"UserName": "alice", "Action": "DeleteUser"}`, 400, ambiguous, ""}, // as curl -d sends it
		{"PUT", "?Action=ListUsers", form, `{"UserName": "alice&x", "action": "DeleteUser"}`, 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", "", "\xef\xbb\xbf{\"Action\": \"DeleteUser\"}", 400, ambiguous, ""},
		{"POST", "?Action=ListUsers", form, `{"UserName": "alice", "_method": "DELETE"}`, 200, "", ""},
		{"POST", "?Action=ListUsers", form, `filter={"Action": "x"}`, 200, "", ""},
		{"POST", "?Action=ListUsers", json, utf16, 415, unread, ""}, // told by its NULs
		{"PUT", "?Action=ListUsers", json, "\xfe\xff\x00" + utf16[:len(utf16)-1], 415, unread, ""},
		{"POST", "?Action=ListUsers", form, "\xff\xfe" + utf16, 415, unread, ""},
		{"POST", "?Action=Set", json, utf16, 400, runtime.ReasonInvalidJSON, "/set"}, // its body is judged
		{"PUT", "?Action=ListUsers", form + "; charset=ibm037", "%c1%83%a3%89%96%95=%c4", 415, unread, ""},
		{"PUT", "?Action=ListUsers", json + "; charset=UTF-8", `{"UserName": "Zoë"}`, 200, "", ""},
		{"PUT", "?Action=ListUsers", "application/octet-stream", utf16, 200, "", ""},
		{"PUT", "?Action=ListUsers", "", "a file with &Action=DeleteUser in it", 200, "", ""},
		{"POST", "?Action=ListUsers", form, "UserName=alice&ActionId=DeleteUser&x=Action", 200, "", ""},
		{"POST", "?Action=ListUsers", "application/octet-stream", "Action=DeleteUser", 200, "", ""},
		{"POST", "?Action=ListUsers", parts, "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nAction\r\n--b--\r\n", 200, "", ""},
	} {
		before := len(k.Up.Requests())
		req, err := http.NewRequest(c.method, "https://"+apptest.Host+cmp.Or(c.path, "/query")+c.target, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.media != "" {
			req.Header.Set("Content-Type", c.media)
		}
		res, err := k.Client(t, "").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reason := reasonOf(t, res)
		if sent := len(k.Up.Requests()) != before; sent != (c.want == http.StatusOK) || res.StatusCode != c.want || reason != c.reason {
			t.Errorf("%s %s %s %.99q: sent: %t, answer %d %s, want %d %s", c.method, c.target, c.media, c.body, sent, res.StatusCode, reason, c.want, c.reason)
		}
	}
}

// reasonOf is why an answer was refused, nothing where it was not.
func reasonOf(t *testing.T, res *http.Response) runtime.Reason {
	t.Helper()
	defer res.Body.Close()
	var p runtime.Problem
	if res.Header.Get("Content-Type") == runtime.ProblemType {
		if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
	}
	return p.Reason
}

const bareService = `name: bare
version: 1.0.0
description: A word that need not have a value, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  plain: {description: Plain, method: POST, path: /f, risk: {level: low}}
  force: {description: Force, method: POST, path: /f, match: {query: {force: "*"}}, risk: {level: critical}}
`

// A long form that says no length is looked at as it passes, to its last word.
func TestTheLastWordOfAPassingFormCounts(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{bareService}})
	for end, want := range map[string]int{"&force": http.StatusBadRequest, "&force=": http.StatusBadRequest, "&other": http.StatusOK} {
		body := io.MultiReader(strings.NewReader("x=" + strings.Repeat("a", 200<<10) + end)) // of no known length
		res, err := k.Client(t, "").Post("https://"+apptest.Host+"/f", "application/x-www-form-urlencoded", body)
		if err != nil {
			t.Fatalf("%s: %v", end, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", end, res.StatusCode, want)
		}
	}
}

// A document or parts that are compressed could have such a word in them, which many
// servers unpack as they read. Those in gzip are looked at unpacked, parts as they pass; as
// of a form, all else is refused where a word decides.
func TestACompressedBodyBesideAWordIsRefused(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{wordService}})
	for _, c := range []struct {
		media, coding, body string
		long                bool
		want                int
	}{
		{"application/json", "gzip", `{"Action": "DeleteUser"}`, false, http.StatusBadRequest},
		{"application/json", "gzip", `{"Action": "DeleteUser"}`, true, http.StatusBadRequest},
		{"application/json; charset=UTF-8", "gzip", `{"UserName": "alice"}`, false, http.StatusOK},
		{"application/json", "gzip", `{"UserName": "alice"}`, true, http.StatusOK},
		{"application/json", "gzip", "{\"UserName\": \"\xff\"}", false, http.StatusUnsupportedMediaType},
		{"application/json", "gzip", `{"UserName": "` + strings.Repeat("a", 2<<20) + `"}`, false, http.StatusRequestEntityTooLarge},
		{"application/json; charset=utf-16", "gzip", `{"UserName": "alice"}`, false, http.StatusUnsupportedMediaType},
		{"application/json", "br", `{"UserName": "alice"}`, false, http.StatusUnsupportedMediaType},
		{"application/x-www-form-urlencoded", "gzip", "UserName=alice", false, http.StatusUnsupportedMediaType},
		{"multipart/form-data; boundary=b", "deflate", "--b", false, http.StatusUnsupportedMediaType},
		{"multipart/related; boundary=b", "gzip", named("file"), false, http.StatusOK}, // as Google's clients for Java upload
		{"multipart/related; boundary=b", "gzip", named("file"), true, http.StatusOK},
		{"multipart/related; boundary=b", "gzip", strings.Repeat("a\n", 1<<20) + named("file"), true, http.StatusOK},
		{"multipart/form-data; boundary=b", "gzip", named("Action"), false, http.StatusBadRequest},
		{"multipart/form-data; boundary=b; charset=utf-16", "gzip", named("file"), false, http.StatusUnsupportedMediaType},
		{"multipart/form-data; boundary=b", "gzip, gzip", named("file"), false, http.StatusUnsupportedMediaType},
		{"application/json", "identity", `{"UserName": "alice"}`, true, http.StatusOK},
		{"application/octet-stream", "gzip", `{"Action": "DeleteUser"}`, false, http.StatusOK},
	} {
		var packed bytes.Buffer
		if w := gzip.NewWriter(&packed); strings.Contains(c.coding, "gzip") {
			_, _ = io.WriteString(w, c.body)
			_ = w.Close()
		} else {
			packed.WriteString(c.body)
		}
		var body io.Reader = &packed
		if c.long {
			body = io.MultiReader(body) // of no known length
		}
		req, err := http.NewRequest("PUT", "https://"+apptest.Host+"/query?Action=ListUsers", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", c.media)
		req.Header.Set("Content-Encoding", c.coding)
		before := len(k.Up.Requests())
		res, err := k.Client(t, "").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if sent := len(k.Up.Requests()) != before; res.StatusCode != c.want || sent != (c.want == http.StatusOK) {
			t.Errorf("%s, %s, long: %t: sent: %t, answer %d, want %d", c.media, c.coding, c.long, sent, res.StatusCode, c.want)
		}
	}
}

// named is a body of one part of a name.
func named(name string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\nDeleteUser\r\n--b--\r\n"
}

// Of parts in gzip that say no length the end never comes where they say such a word.
func TestCompressedPartsThatPass(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{wordService}})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, named("file")+named("Action"))
	_ = w.Close()
	req, err := http.NewRequest("POST", "https://"+apptest.Host+"/query?Action=ListUsers", io.MultiReader(&packed))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "multipart/related; boundary=b")
	req.Header.Set("Content-Encoding", "gzip")
	res, err := k.Client(t, "").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("answer %d", res.StatusCode)
	}
	k.Up.AwaitEnds(t)
	for _, got := range k.Up.Requests() {
		if len(got.Body) > 0 {
			t.Errorf("of the body %q was sent", got.Body)
		}
	}
}

// wide is a text in UTF-16, of which each unit goes through escape.
func wide(text, escape string) string {
	var b strings.Builder
	for _, c := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&b, escape, c>>8, c&0xff)
	}
	return b.String()
}

// In another charset a form or document says such a word, or another method, in bytes that
// are not those of the word, and servers that go by the charset find it.
func TestABodyInAnotherCharsetIsRefused(t *testing.T) {
	t.Parallel()
	const form, json = "application/x-www-form-urlencoded", "application/json"
	k := apptest.New(t, apptest.Options{Services: []string{wordService}})
	for _, c := range []struct {
		method, media, body string
		want                int
	}{
		{"POST", form + ";charset=UTF-16BE", wide("_method", "%%%02x%%%02x") + "=" + wide("DELETE", "%%%02x%%%02x"), http.StatusUnsupportedMediaType},
		{"PUT", form + "; Charset = \"utf-16be\"", wide("Action", "%%%02x%%%02x") + "=" + wide("DeleteUser", "%%%02x%%%02x"), http.StatusUnsupportedMediaType},
		{"PUT", json + "; charset=utf-16be", wide(`{"Action": "DeleteUser"}`, "%c%c"), http.StatusUnsupportedMediaType},
		{"PUT", json + "; charset=utf-8; charset=utf-7", `{"+AEE-ction": "DeleteUser"}`, http.StatusUnsupportedMediaType},
		{"PUT", json + "; charset*=us-ascii''ibm037", `{}`, http.StatusUnsupportedMediaType},
		{"POST", "multipart/form-data; boundary=b; charset=ibm037", "--b", http.StatusUnsupportedMediaType},
		{"POST", "multipart/form-data; boundary=charset", "--charset", http.StatusOK},
		{"POST", form + "; charset=UTF-8", "UserName=alice", http.StatusOK},
		{"POST", form + `; charset="iso-8859-1"; x=y`, "UserName=alice", http.StatusOK},
		{"PUT", json + ";charset=utf8", `{"UserName": "alice"}`, http.StatusOK},
		{"PUT", "text/plain; charset=utf-16", "Action", http.StatusOK},
	} {
		req, err := http.NewRequest(c.method, "https://"+apptest.Host+"/query?Action=ListUsers", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", c.media)
		before := len(k.Up.Requests())
		res, err := k.Client(t, "").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if sent := len(k.Up.Requests()) != before; res.StatusCode != c.want || sent != (c.want == http.StatusOK) {
			t.Errorf("%s %s: sent: %t, answer %d, want %d", c.method, c.media, sent, res.StatusCode, c.want)
		}
	}
}
