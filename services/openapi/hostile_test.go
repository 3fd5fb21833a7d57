package openapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/openapi"
)

const head = `{"openapi": "3.0.0", "info": {"title": "x", "version": "1"}, "servers": [{"url": "https://x.test"}], "paths": {`

// A document that cannot be read is refused with a sentence that says why.
func TestDocumentsThatAreNoneAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "the text is empty"},
		"text":         {"hello", "it holds no object"},
		"list":         {"[1]", "it holds no object"},
		"half JSON":    {`{"openapi": "3.0.0"`, "did not find expected"},
		"two":          {`{"openapi": "3.0.0"} {}`, "not valid"},
		"two YAML":     {"openapi: 3.0.0\n---\na: 1\n", "more than one YAML document"},
		"no version":   {"info: {}", "no field openapi or swagger"},
		"old":          {`swagger: "1.2"`, "no field openapi or swagger"},
		"new":          {"openapi: 4.0.0", `openapi "4.0.0" is not a version`},
		"new number":   {"openapi: 4.1", `openapi "4.1" is not a version`},
		"number":       {"openapi: 3.1", "no operation is left"},
		"both names":   {`{"openapi": "3.0.0", "servers": [{"url": "https://{a-.}.{a}.test"}], "paths": {"/a": {"get": {}}}}`, "two variables that are called alike"},
		"no paths":     {"openapi: 3.0.0", "no operation is left"},
		"no server":    {`{"openapi": "3.0.0", "paths": {"/a": {"get": {}}}}`, "names no server"},
		"cleartext":    {`{"openapi": "3.0.0", "servers": [{"url": "http://x.test"}], "paths": {"/a": {"get": {}}}}`, "is not https"},
		"relative":     {`{"openapi": "3.0.0", "servers": [{"url": "/v1"}], "paths": {"/a": {"get": {}}}}`, "no whole address"},
		"user":         {`{"openapi": "3.0.0", "servers": [{"url": "https://a:b@x.test"}], "paths": {"/a": {"get": {}}}}`, "no address of a service"},
		"nothing left": {head + `"/a/{b}c": {"get": {}}}}`, "mixes text and a parameter"},
		"own tag":      {"openapi: !evil 3.0.0", "is not known"},
		"anchor":       {"openapi: 3.0.0\na: &a {b: *a}", "holds itself"},
		"deep JSON":    {head + `"/a": ` + strings.Repeat("[", 200_000), "max depth"},
		"deep YAML":    {"a: " + strings.Repeat("[", 200_000), "max depth"},
	} {
		_, err := one(t, c.text, openapi.Options{})
		var e *runtime.Error
		if !errors.As(err, &e) || e.Code != runtime.CodeInvalidInput || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%s: %.200v, want %q", name, err, c.want)
		}
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	const good = head + `"/a": {"get": {}}}}`
	for want, o := range map[string]openapi.Options{
		"--auth takes":            {Auth: "magic"},
		"not \"header\"":          {Auth: "header"},
		"not \"bearer:x\"":        {Auth: "bearer:x"},
		"is not https":            {BaseURL: "http://x.test"},
		"is not a name":           {Name: "No Name"},
		`--auth "header:Host"`:    {Auth: "header:Host"},
		`--auth "header:Bad:N"`:   {Auth: "header:Bad:N"},
		"no operation is left":    {Tags: []string{"none"}},
		"no operation is left to": {PathPrefix: "/b"},
	} {
		if _, err := one(t, good, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := one(t, good, openapi.Options{Auth: "header:Host"}); err == nil || !strings.Contains(runtime.AsError(err).Hint, "import --help") {
		t.Errorf("%+v", runtime.AsError(err))
	}
	if r, err := one(t, good, openapi.Options{Name: "null"}); err != nil || parse(t, r).Services()[0].Name != "null" {
		t.Error(err)
	}
	for text, want := range map[string]string{ // the fix is about what was given
		head + `}}`:                                    "whose paths has the operations",
		head + `"/a/{b}c": {"get": {}}}}`:              "correct the description where it says why",
		`{"openapi": "3.0.0", "info": {"title": "x"}}`: "whose paths has the operations",
	} {
		if _, err := one(t, text, openapi.Options{}); err == nil || !strings.Contains(runtime.AsError(err).Hint, want) {
			t.Errorf("%s: %+v", text, runtime.AsError(err))
		}
	}
	const partly = head + `"/a": {"get": {"tags": ["good"]}}, "/b": {"get": 1}, "/keys": {"$ref": "#/none"}}}`
	_, err := one(t, partly, openapi.Options{Tags: []string{"typo"}})
	if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, "no operation is left") || !strings.Contains(e.Hint, "its tags are \"good\"") {
		t.Errorf("%+v", e)
	}
	_, err = one(t, partly, openapi.Options{PathPrefix: "/b"}) // the one that is asked for cannot be read
	if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, "GET /b") || !strings.Contains(e.Hint, "correct the description") {
		t.Errorf("%+v", e)
	}
	if r, err := one(t, partly, openapi.Options{Tags: []string{"good"}}); err != nil || strings.Contains(r.Report(), "lasting access") {
		t.Errorf("%v %s", err, r.Report())
	}
	if _, err := openapi.Import(openapi.Options{Files: os.DirFS(t.TempDir()), Document: "none.yaml"}); err == nil || !strings.Contains(err.Error(), "there is no file none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Aliases that multiply, schemas that go in circles and references that fan out
// cost no more than the document's own size allows.
func TestHostileDocumentsCostLittle(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("openapi: 3.0.0\ninfo: {title: x, version: '1'}\nservers: [{url: 'https://x.test'}]\na0: &a0 {type: string}\n")
	for i := range 40 {
		fmt.Fprintf(&bomb, "a%d: &a%d {allOf: [*a%d, *a%d, *a%d], anyOf: [*a%d, *a%d]}\n", i+1, i+1, i, i, i, i, i)
	}
	bomb.WriteString("paths: {/ok: {get: {}}, /bomb: {post: {requestBody: {content: {application/json: {schema: *a40}}}}}}\n")
	var fan strings.Builder
	fan.WriteString(head + `"/ok": {"get": {}}, "/fan": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}}}}, "components": {"schemas": {`)
	for i := range 30 {
		next := fmt.Sprintf(`{"$ref": "#/components/schemas/S%d"}`, (i+1)%30)
		fmt.Fprintf(&fan, `"S%d": {"oneOf": [%s, %s], "allOf": [%s], "items": %s, "properties": {"a": %s, "b": %s}},`, i, next, next, next, next, next, next)
	}
	fan.WriteString(`"Z": {}}}}`)
	for name, text := range map[string]string{"aliases": bomb.String(), "circles": fan.String()} {
		before := time.Now()
		r, err := one(t, text, openapi.Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		if r.Imported != 1 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "too deep or too many") {
			t.Errorf("%s: %s", name, r.Report())
		}
		if took := time.Since(before); took > 20*time.Second { // some 50 ms
			t.Errorf("%s took %v", name, took)
		}
	}
}

// What operations share is not looked at for each of them without end, nor is a path for each
// of its parameters.
func TestWhatManyOperationsShareCostsLittle(t *testing.T) {
	list := func(n int, one string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(strings.ReplaceAll(one, "'", `"`)+",", n), ",") + "]"
	}
	var shared strings.Builder
	shared.WriteString(head + `"/": {"get": {}}`)
	for i := range 2000 {
		fmt.Fprintf(&shared, `, "/a%d/{x}": {"$ref": "#/item"}`, i)
	}
	shared.WriteString(`}, "item": {`)
	for _, method := range []string{"get", "head", "post", "put", "patch", "delete", "options", "trace", "query"} {
		fmt.Fprintf(&shared, `"%s": {"$ref": "#/operation"}, `, method)
	}
	item := shared.String()
	var holes, spans strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&holes, "/{a%d}", i)
		fmt.Fprintf(&spans, `{"in": "path", "name": "a%d", "schema": {"pattern": "users/[^/]+"}},`, i)
	}
	var row, mixed, patterns strings.Builder // segments of a text and a parameter, that are no action
	for i := range 60 {
		fmt.Fprintf(&row, "/b{x%d}", i)
		fmt.Fprintf(&patterns, `{"in": "path", "name": "x%d", "schema": {"type": "string", "pattern": "%s"}},`, i, strings.Repeat("a?", 99))
	}
	for i := range 1000 {
		fmt.Fprintf(&mixed, `, "/b%d%s": {"$ref": "#/item"}`, i, row.String())
	}
	for name, text := range map[string]string{
		"parameters": item + `"parameters": ` + list(20_000, "{'in':'path','name':'a1'}") + `}, "operation": {}}`,
		"patterns":   head + `"/": {"get": {}}` + mixed.String() + `}, "item": {"get": {}, "parameters": [` + strings.TrimSuffix(patterns.String(), ",") + `]}}`,
		"servers":    item + `"servers": ` + list(20_000, "{'url':'/'}") + `}, "operation": {}}`,
		"tags":       item + `"x": 1}, "operation": {"tags": ` + list(20_000, "'a'") + `}}`,
		"holes":      head + `"/": {"get": {}}, "` + holes.String() + `": {"get": {"parameters": [` + strings.TrimSuffix(spans.String(), ",") + `]}}}}`,
	} {
		before := time.Now()
		r, err := one(t, text, openapi.Options{})
		if err != nil || r.Imported < 1 || !strings.Contains(r.Report(), "too many parameters, servers or tags") {
			t.Fatal(name, err)
		}
		if took := time.Since(before); took > 60*time.Second { // some 1 s
			t.Errorf("%s took %v", name, took)
		}
	}
}

// Nor what a document says once of the keys of all.
func TestSecurityThatOperationsShareIsLookedAtOnce(t *testing.T) {
	const n = 20_000
	var b strings.Builder
	b.WriteString(head + `"/": {"get": {}}`)
	for i := range n / 4 {
		fmt.Fprintf(&b, `, "/a%d": {"get": {}}`, i)
	}
	b.WriteString(`}, "components": {"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X-Key"}}}, "security": [{"none": []}`)
	for i := range n {
		fmt.Fprintf(&b, `, {"k": [], "s%d": []}`, i)
	}
	b.WriteString(`]}`)
	before := time.Now()
	r, err := one(t, b.String(), openapi.Options{})
	if err != nil || !strings.Contains(string(r.YAML), "X-Key") {
		t.Fatal(err)
	}
	if took := time.Since(before); took > 20*time.Second { // some 500 ms
		t.Errorf("it took %v", took)
	}
}

// Nor do many operations that each are within bounds.
func TestManyOperationsShareOneBudget(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for i := range 3000 {
		fmt.Fprintf(&b, `"/p%d": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Wide"}}}}}},`, i)
	}
	b.WriteString(`"/ok": {"get": {}}}, "components": {"schemas": {"Wide": {"allOf": [{}`)
	b.WriteString(strings.Repeat(`, {"type": "object"}`, 9000))
	b.WriteString(`]}}}}`)
	before := time.Now()
	r, err := one(t, b.String(), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Skipped) < 2500 || !strings.Contains(r.Report(), "too deep or too many") {
		t.Errorf("%.500s", r.Report())
	}
	if took := time.Since(before); took > 60*time.Second { // some 2 s
		t.Errorf("it took %v", took)
	}
	var wide strings.Builder
	wide.WriteString(head + `"/ok": {"get": {}}, "/wide": {"post": {"requestBody": {"content": {"application/json": {"schema": {"properties": {"a": {"type": "string"}`)
	for i := range 1000 {
		fmt.Fprintf(&wide, `, "a%d": {"type": "string"}`, i)
	}
	wide.WriteString(`}}}}}}}}}`)
	if r, err = one(t, wide.String(), openapi.Options{}); err != nil || !strings.Contains(r.Report(), "more than 250 arguments") {
		t.Errorf("%v %s", err, r.Report())
	}
}

func TestLongDocumentsAreRefusedUnread(t *testing.T) {
	defer debug.FreeOSMemory()
	dir := t.TempDir()
	for name, want := range map[string]string{"doc.json": "more than 64 MiB", "doc.yaml": "more than 24 MiB"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size := int64(100 << 20)
		if name == "doc.yaml" {
			size = 30 << 20
		}
		_, err = f.WriteString(map[string]string{"doc.json": "{", "doc.yaml": "openapi: 3.0.0 #"}[name])
		if err := errors.Join(err, f.Truncate(size), f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := openapi.Import(openapi.Options{Files: os.DirFS(dir), Document: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A link in the folder that leads out of it is not followed: the folder is opened
// as os.Root.
func TestRefsThroughLinksStayInTheFolder(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret.yaml")
	doc := `{openapi: 3.0.0, servers: [{url: "https://x.test"}], paths: {/ok: {get: {}}, /a: {get: {parameters: [{$ref: "link.yaml#/p"}]}}}}`
	err := errors.Join(os.WriteFile(outside, []byte("p: {name: leaked, in: query}"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "link.yaml")), os.WriteFile(filepath.Join(dir, "doc.yaml"), []byte(doc), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	r, err := openapi.Import(openapi.Options{Files: root.FS(), Document: "doc.yaml"})
	if err != nil || r.Imported != 1 || strings.Contains(string(r.YAML), "leaked") {
		t.Errorf("%v\n%s", err, r.YAML)
	}
}

// What the texts of a document hold stays text in the file.
func TestTextsCannotBecomeFields(t *testing.T) {
	for _, text := range []string{
		"a: b", "x\nauth: {type: none}", "}, risk: {level: low}", "# no", "'quoted'", `"quoted"`, "yes", "- a", "*a", "&a b", "!t", "{x}", "%a", "@b", "`c`",
		"tab\tand \x01 control", "\u2028line", "ﬁn é 日本", "a  b ", "null", "1.5", "~", "?", "|", ">", "<<", "=", "0x1f", "\ufeffx", "a'b", "a\\b", "\x7f", "\ufffe",
	} {
		quoted := fmt.Sprintf("%q", text)
		if strings.ContainsAny(text, "\x01\x7f\ufffe\ufeff") {
			quoted = `"` + strings.NewReplacer("\x01", `\u0001`, "\x7f", `\u007f`, "\ufffe", `\ufffe`, "\ufeff", `\ufeff`, "\t", `\t`).Replace(text) + `"`
		}
		doc := fmt.Sprintf(`{"openapi": "3.0.0", "info": {"title": %s, "version": %s}, "servers": [{"url": "https://x.test"}], "paths": {"/a": {"get": {"operationId": %s, "summary": %s,
			"parameters": [{"name": %s, "in": "query", "description": %s, "schema": {"type": "string", "default": %s, "enum": [%s]}}]}}}}`, quoted, quoted, quoted, quoted, quoted, quoted, quoted, quoted)
		r, err := one(t, doc, openapi.Options{Auth: "header:X-Key"})
		if err != nil {
			t.Errorf("%s: %v", quoted, err)
			continue
		}
		set := parse(t, r)
		s := set.Services()[0]
		if len(s.Actions) != 4 || s.Auth.Type != runtime.AuthHeader || len(s.Actions[0].Params) != 1 {
			t.Errorf("%s became\n%s", quoted, r.YAML)
		}
	}
}

// What hands out access is no write like any other because the description of it
// cannot be read, or has its path for something harmless too.
func TestWhatIsLeftOutDoesNotFallToACatchAll(t *testing.T) {
	r, err := one(t, head+`"/a": {"get": {}}, "/keys": {"post": {"parameters": [{"$ref": "#/none"}]}}, "/users/{id}.{format}/tokens": {"post": {}},
		"/p/{id}": {"post": {"operationId": "makeThing", "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}]}},
		"/p/{key}": {"post": {"operationId": "createApiKey", "parameters": [{"name": "key", "in": "path", "schema": {"type": "integer"}}]}},
		"/notes/{a}.{b}": {"post": {}}, "/else/tokens": {"post": {"servers": [{"url": "https://y.test"}]}}}}`, openapi.Options{})
	if err != nil || r.Imported != 2 || r.Total != 7 || len(r.Skipped) != 5 {
		t.Fatal(err, r.Report())
	}
	set := parse(t, r)
	for path, want := range map[string]runtime.Risk{
		"/keys": runtime.RiskCritical, "/users/7.json/tokens": runtime.RiskCritical, "/p/7": runtime.RiskCritical, "/notes/7.json": runtime.RiskMedium, "/else/tokens": runtime.RiskMedium,
	} {
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "x.test:443", Method: "POST", Target: path, Header: http.Header{}})
		if a, _ := set.Action(m.Action); err != nil || a == nil || a.Risk != want || a.GrantsAccess != (want == runtime.RiskCritical) {
			t.Errorf("POST %s is %s, %v, want %s\n%s", path, m.Action, err, want, r.YAML)
		}
	}
}

func TestWhatWasNotAskedForAndHandsOutAccessIsNamed(t *testing.T) {
	r, err := one(t, head+`"/a": {"get": {"tags": ["x"]}}, "/keys": {"post": {}}, "/b": {"post": {}}}}`, openapi.Options{Tags: []string{"x"}})
	if err != nil || !strings.Contains(r.Report(), "note: 1 that hand out lasting access were not asked for, and are any other read or write: post-keys\n") {
		t.Error(err, r.Report())
	}
}

func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sections(string(archive))["doc.yaml"])
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := one(t, text, openapi.Options{BaseURL: "https://x.test"}); err == nil {
			parse(t, r)
		}
	})
}
