package record_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// written records the request as a refusal and returns its line and members.
func written(t *testing.T, e record.Encoder, r *runtime.Record) (string, map[string]any) {
	t.Helper()
	line := string(append(e.Outcome([]byte("{"), r, time.Unix(0, 0)), '}'))
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return line, m
}

// holding encodes for a vault with these values in it.
func holding(values ...string) record.Encoder {
	return record.Encoder{Hash: audittest.Hashes{Stored: values}}
}

// locked encodes for a vault that is locked.
func locked() record.Encoder { return record.Encoder{Hash: audittest.Hashes{Locked: true}} }

func TestHostileTextStaysOneValidLine(t *testing.T) { // AU-007
	for name, evil := range map[string]string{
		"newline":  "/x\n{\"seq\":2,\"kind\":\"outcome\"}",
		"return":   "/x\r\n",
		"U+2028":   "/x\u2028y\u2029z\u0085",
		"ansi":     "/x\x1b[2J\x1b]0;title\x07\u009b1m",
		"bidi":     "/x\u202egpj.exe\u2066",
		"utf8":     "/x\xff\xfe\xc3(",
		"nul":      "/x\x00y",
		"quotes":   `/x","verdict":"allow","y":"\`,
		"mebibyte": "/" + strings.Repeat("é", 1<<19),
		"invalid":  "/" + strings.Repeat("\x80", 1<<20),
	} {
		r := audittest.Record("req_1")
		r.Target.Path, r.Principal.Agent, r.Verdict.Rule = evil, evil, evil
		r.Args = runtime.Args{evil: evil}
		r.Err = &runtime.Error{Code: runtime.CodeForbidden, Msg: evil}
		r.Result.Changed = []runtime.Change{{Kind: runtime.ChangeMisleading, Name: evil}}
		line, m := written(t, holding(), r)
		for _, c := range line {
			if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 || c == '\u2028' || c == '\u2029' || c == '\u202e' || c == '\u2066' {
				t.Errorf("%s: the line holds %U", name, c)
			}
		}
		if !utf8.ValidString(line) || m["kind"] != "refusal" || m["verdict"] != nil {
			t.Errorf("%s: %q", name, line)
		}
		if len(line) > 64<<10 {
			t.Errorf("%s: a line of %d bytes", name, len(line))
		}
		if len(evil) > 1<<20 && !strings.Contains(line, "1048577 bytes") {
			t.Errorf("%s: the length of the cut text is not noted", name)
		}
	}
}

func action() *runtime.Action {
	return &runtime.Action{
		Ref: "demo.act", Risk: runtime.RiskHigh, Digest: "abc", Auth: &runtime.Auth{},
		Params: []runtime.Param{
			{Name: "owner", In: runtime.InPath}, {Name: "page", In: runtime.InQuery},
			{Name: "key", In: runtime.InPath, Secret: true}, {Name: "pin", In: runtime.InBody, Secret: true},
			{Name: "note", In: runtime.InBody}, {Name: "title"},
		},
	}
}

func TestArgumentsAreRedactedByPlace(t *testing.T) { // AU-006
	const vaulted = "vaulted-value-0123"
	r := audittest.Record("req_1")
	r.Action = action()
	r.Target.Path = "/u/acme/hunter%32/x?page=2&key=hunter2"
	r.Args = runtime.Args{
		"owner": "acme", "page": json.Number("2"), "key": "hunter2", "pin": "1234", "title": "t",
		"note":  map[string]any{"a": []any{"Bearer ghp_0123456789abcdefghijkl", `{"session":"s3cr3t"}`}},
		"extra": "undeclared-value",
	}
	r.Query = runtime.Args{"auth": "query-secret"}
	r.Err = &runtime.Error{
		Code: runtime.CodeUpstream, Msg: "sent " + vaulted + " and ghp_0123456789abcdefghijkl to it",
		Err: errors.New("upstream said private-words"),
	}
	e := holding()
	e.Secrets = func() []runtime.Secret { return []runtime.Secret{runtime.NewSecret(vaulted)} }
	line, m := written(t, e, r)
	for _, leak := range []string{"hunter", "1234", "ghp_", "s3cr3t", "undeclared-value", "query-secret", vaulted, "private-words"} {
		if strings.Contains(line, leak) {
			t.Errorf("the record shows %q: %s", leak, line)
		}
	}
	args, _ := m["args"].(map[string]any)
	if args["owner"] != "acme" || args["page"] != float64(2) {
		t.Errorf("declared path and query arguments are not plain: %v", args)
	}
	if note, _ := args["note"].(map[string]any); note["hash"] == nil || note["size"] == nil {
		t.Errorf("a body argument has no hash and size: %v", args["note"])
	}
	if query, _ := m["query"].(map[string]any); query["auth"].(map[string]any)["hash"] == nil {
		t.Errorf("an undeclared query value has no hash: %v", m["query"])
	}
	if m["path"] != "/u/acme/***/x" {
		t.Errorf("path %q", m["path"])
	}

	line, _ = written(t, locked(), r)
	if strings.Contains(line, `"hash"`) || !strings.Contains(line, `{"omitted":"locked","size":`) {
		t.Errorf("with a locked vault: %s", line)
	}
}

// A value of the vault is masked under whatever name and in whatever place it
// comes, a word of one too, and the record tells who has the value that it was it.
func TestStoredValuesAreMaskedWhereverTheyStand(t *testing.T) { // AU-006
	const word, phrase = "Unusual-Value-77", "two words 42!"
	for name, change := range map[string]func(r *runtime.Record){
		"path argument":       func(r *runtime.Record) { r.Args = runtime.Args{"owner": word} },
		"in a sentence":       func(r *runtime.Record) { r.Args = runtime.Args{"page": "it is " + word + ", you know"} },
		"whole value":         func(r *runtime.Record) { r.Args = runtime.Args{"page": phrase} },
		"nested plain":        func(r *runtime.Record) { r.Args = runtime.Args{"page": []any{map[string]any{"x": word}}} },
		"name of an argument": func(r *runtime.Record) { r.Args = runtime.Args{word: "x"} },
		"path":                func(r *runtime.Record) { r.Target.Path = "/u/" + word + "/x" },
		"escaped path":        func(r *runtime.Record) { r.Target.Path = "/u/a%2FUnusual%2dValue%2D77/x" },
		"whole value in path": func(r *runtime.Record) { r.Target.Path = "/u/two%20words%2042!/x" },
		"path of no action":   func(r *runtime.Record) { r.Action, r.Target.Path = nil, "/u/%55nusual-Value-77" },
		"message": func(r *runtime.Record) {
			r.Err = &runtime.Error{Code: runtime.CodeUpstream, Msg: "no " + word + " here"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := audittest.Record("req_1")
			r.Action = action()
			change(r)
			line, m := written(t, holding(word, phrase), r)
			for _, leak := range []string{word, "Unusual", "Value-77", "%2dValue", "words", phrase} {
				if strings.Contains(line, leak) {
					t.Errorf("the record shows %q: %s", leak, line)
				}
			}
			if !strings.Contains(line, "***") {
				t.Errorf("nothing is masked: %s", line)
			}
			if hits, _ := m["masked"].([]any); name != "message" && len(hits) != 1 {
				t.Errorf("masked %v: %s", m["masked"], line)
			}
			if line, _ := written(t, holding("Another-Value-1"), r); strings.Contains(line, "***") {
				t.Errorf("masked what is not stored: %s", line)
			}
			if line, _ := written(t, locked(), r); name != "whole value" && name != "whole value in path" && strings.Contains(line, "Value-77") {
				t.Errorf("with a locked vault: %s", line)
			}
		})
	}
}

// What a stored value looks like in the usual encodings is known as well, with
// text around it outside and inside; what decodes to something else is not touched.
func TestEncodedStoredValuesAreMasked(t *testing.T) {
	const value = "two words+Unusual/Value-77"
	std, raw := base64.StdEncoding, base64.RawURLEncoding
	for name, spelling := range map[string]string{
		"base64":               std.EncodeToString([]byte(value)),
		"without padding":      raw.EncodeToString([]byte(value)),
		"user and value":       "Basic " + std.EncodeToString([]byte("user:"+value)),
		"at the end of a path": "a/b/" + base64.RawStdEncoding.EncodeToString([]byte(value)),
		"hex":                  hex.EncodeToString([]byte(value)),
		"capital hex":          "x=" + strings.ToUpper(hex.EncodeToString([]byte(value))) + ";",
		"percent":              url.PathEscape(value),
		"of a query":           "a" + url.QueryEscape(" "+value),
		"every byte":           strings.ToUpper(regexp.MustCompile("..").ReplaceAllString(hex.EncodeToString([]byte(value)), "%$0")),
		"percent of base64":    url.QueryEscape(std.EncodeToString([]byte(value + "?"))),
	} {
		t.Run(name, func(t *testing.T) {
			r := audittest.Record("req_1")
			r.Action, r.Args = action(), runtime.Args{"page": spelling}
			line, m := written(t, holding(value, "Unusual", "Value-77"), r)
			if hits, _ := m["masked"].([]any); !strings.Contains(line, "***") || len(hits) == 0 || strings.Contains(line, spelling[len(spelling)/2:]) {
				t.Errorf("recorded %s", line)
			}
			if line, _ := written(t, holding("Another-Value-1"), r); strings.Contains(line, "***") {
				t.Errorf("masked what is not stored: %s", line)
			}
		})
	}
}

// A stored passphrase of plain words is known as a whole only, and hides in no encoding either.
func TestAnEncodedPassphraseIsMasked(t *testing.T) {
	const value = "correct horse battery staple"
	for name, spelling := range map[string]string{
		"as it is": value, "percent": url.PathEscape(value), "of a query": url.QueryEscape(value),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "hex": hex.EncodeToString([]byte(value)),
	} {
		r := audittest.Record("req_1")
		r.Action, r.Args = action(), runtime.Args{"page": spelling}
		r.Target.Path = "/v1/" + url.PathEscape(value) + "/x"
		line, m := written(t, holding(value), r)
		args, _ := m["args"].(map[string]any)
		page, _ := args["page"].(string) // padding stays
		if hits, _ := m["masked"].([]any); strings.TrimRight(page, "=") != "***" || len(hits) != 1 || strings.Contains(line, "horse") {
			t.Errorf("%s: recorded %s", name, line)
		}
	}
}

// An argument that the action calls secret is left out; its keyed hash is kept.
func TestSecretArgumentsCanBeAskedFor(t *testing.T) {
	r := audittest.Record("req_1")
	r.Action, r.Args = action(), runtime.Args{"pin": "1234"}
	line, m := written(t, holding(), r)
	args, _ := m["args"].(map[string]any)
	pin, _ := args["pin"].(map[string]any)
	hits, _ := m["masked"].([]any)
	if pin["omitted"] != "secret" || len(pin) != 1 || len(hits) != 1 || strings.Contains(line, "1234") {
		t.Errorf("recorded %s", line)
	}
}

func TestAuditPlainShowsBodyArguments(t *testing.T) {
	r := audittest.Record("req_1")
	r.Action = action()
	r.Action.AuditPlain = true
	r.Args = runtime.Args{
		"note": map[string]any{"b": json.Number("1.50"), "a": []any{true, nil}},
		"pin":  "1234", "title": "Bearer ghp_0123456789abcdefghijkl",
	}
	line, _ := written(t, holding(), r)
	if !strings.Contains(line, `"note":{"a":[true,null],"b":1.50}`) {
		t.Errorf("a plain body argument: %s", line)
	}
	if strings.Contains(line, "1234") || strings.Contains(line, "ghp_") {
		t.Errorf("a secret shows: %s", line)
	}
}

func TestTheRecordSaysAll(t *testing.T) {
	r := audittest.Record("req_1")
	r.Action = action()
	r.Principal.TokenID, r.Principal.Run = "t_1", "run_1"
	r.Verdict.Digest, r.Credential, r.Version, r.Body = "pol", "github", 7, "streamed"
	r.ApprovalID, r.Ticket = "apr_1", runtime.Ticket{ID: "apr_1", By: "local:1000", Presence: "pin"}
	r.Ended = r.Received.Add(1500 * time.Microsecond)
	r.Result = runtime.Result{
		Status: 201, BytesIn: 5, BytesOut: 6, Used: runtime.CredentialStored, Address: "10.0.0.1:443",
		Private: true, Unscanned: true, Scrubbed: 2, Changed: []runtime.Change{{Kind: runtime.ChangeHop, Name: "connection"}, {Kind: runtime.ChangeCallerKey, Name: "authorization"}},
	}
	_, m := written(t, holding(), r)
	for name, want := range map[string]any{
		"principal": "local:1000", "agent": "local", "token": "t_1", "run": "run_1", "surface": "proxy", "tenant": "default",
		"action": "demo.act", "action_digest": "abc", "policy_digest": "pol", "risk": "high", "effect": "allow", "rule": "default:low",
		"credential": "github", "credential_version": 7.0, "credential_used": "stored", "body": "streamed", "approval": "apr_1",
		"decided_by": "local:1000", "presence": "pin", "status": 201.0, "bytes_in": 5.0, "bytes_out": 6.0, "duration_us": 1500.0,
		"private": true, "address": "10.0.0.1:443", "unscanned": true, "scrubbed": 2.0, "result": "ok", "method": "GET", "host": "api.github.com:443",
	} {
		if m[name] != want {
			t.Errorf("%s: %v, want %v", name, m[name], want)
		}
	}
}

func TestManyArgumentsAreCounted(t *testing.T) {
	r := audittest.Record("req_1")
	r.Args = runtime.Args{}
	for i := range 5000 {
		r.Args[strings.Repeat("x", i%50)+string(rune('a'+i%26))+strings.Repeat("y", i/26)] = "v"
	}
	line, m := written(t, holding(), r)
	if m["args_omitted"] == nil || len(line) > 32<<10 {
		t.Errorf("5000 arguments make a line of %d bytes, omitted %v", len(line), m["args_omitted"])
	}
}

func TestTimesHaveOneForm(t *testing.T) {
	const form = "2006-01-02T15:04:05.000000Z"
	times := []time.Time{{}, time.Unix(0, 0), time.Unix(1, 999), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 2, 3, 4, 5, 6, 7000, time.UTC)}
	for day := range 1500 { // over a leap day, by steps that pass through every hour
		times = append(times, time.Date(2023, 12, 30, 0, 0, 0, 0, time.FixedZone("", -3*3600)).Add(time.Duration(day)*(23*time.Hour+7*time.Minute+11*time.Second+123456789)))
	}
	for _, at := range times {
		if got, want := string(record.AppendTime(nil, at)), at.UTC().Format(form); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// A byte that has to be escaped is seen wherever it stands among others, also beside those
// that are nearest to it: texts are looked at eight bytes at a time.
func TestNoByteIsOverlookedInAText(t *testing.T) {
	escaped := func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == '\\' }
	for _, beside := range []byte{'a', ' ', '!', '#', '[', ']', '~', 0x00, 0x1f, 0x7f, 0x80, 0xff} {
		for length := 1; length <= 17; length++ {
			for at := range length {
				text := bytes.Repeat([]byte{beside}, length)
				for c := range 256 {
					text[at] = byte(c)
					out := string(record.AppendText(nil, string(text), 100))
					want := utf8.Valid(text) && bytes.IndexFunc(text, escaped) < 0
					if as := out == `"`+string(text)+`"`; as != want {
						t.Fatalf("%q became %s", text, out)
					}
				}
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("plain", 10)
	f.Add("0", 0)
	f.Add("\u2028\x00\xff\xf0\x9f", 3)
	f.Add("𝄞\u0007é", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 0 || limit > 1<<16 {
			return
		}
		out := record.AppendText(nil, s, limit)
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%v: %q", err, out)
		}
		if strings.ContainsAny(string(out), "\n\r\u2028\u2029") {
			t.Fatalf("more than one line: %q", out)
		}
		if len(s) <= limit && back != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add("name", `{"a":[1,2,{"b":"c"}]}`, "/a/b?c=d")
	f.Add("\n", `"\u2028"`, "%zz")
	f.Add("n", `1e999`, "/")
	f.Fuzz(func(t *testing.T, name, value, path string) {
		var v any
		decoder := json.NewDecoder(strings.NewReader(value))
		decoder.UseNumber()
		if decoder.Decode(&v) != nil {
			v = json.Number(value)
		}
		r := audittest.Record("req_1")
		r.Action = action()
		r.Action.AuditPlain = true
		r.Args = runtime.Args{name: v, "note": v, "owner": value}
		r.Target.Path = path
		e := holding()
		out := append(e.Outcome([]byte("{"), r, time.Unix(0, 0)), '}')
		if !json.Valid(out) || strings.ContainsAny(string(out), "\n\u2028") {
			t.Fatalf("not one valid line: %q", out)
		}
	})
}
