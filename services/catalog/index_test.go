package catalog_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// operation is one line of an index: what an official description says.
type operation struct {
	Method, Host, Path string   // the host where a service has another path at each of its hosts
	Required           []string // "path:owner", "query:q", "body:title"
	Name               string
}

func (o operation) String() string { return o.Method + " " + o.Host + o.Path }

// at splits "host/path", or a path alone, which is at the first host of its service.
func at(place string) (host, path string) {
	host, path, _ = strings.Cut(place, "/")
	return host, "/" + path
}

// readIndex reads testdata/index/NAME.tsv. Its first line says where the lines
// come from.
func readIndex(t *testing.T, name string) []operation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "index", name+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if !strings.HasPrefix(lines[0], "# ") || !strings.Contains(lines[0], "version") {
		t.Fatalf("%s.tsv does not say which version of which document it is from", name)
	}
	var out []operation
	for i, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			t.Fatalf("%s.tsv:%d has %d fields, not method, path, required and name", name, i+2, len(fields))
		}
		host, path := at(fields[1])
		out = append(out, operation{fields[0], host, path, strings.Fields(fields[2]), fields[3]})
	}
	return out
}

// document is the part of an OpenAPI document (2.0 to 3.1) that an index holds.
type document struct {
	Info       struct{ Title, Version string }
	BasePath   string
	Servers    []struct{ URL string }
	Paths      map[string]map[string]json.RawMessage
	Parameters map[string]parameter
	Components struct {
		Parameters    map[string]parameter
		RequestBodies map[string]requestBody
		Schemas       map[string]schema
	}
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   schema
}

type requestBody struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref      string `json:"$ref"`
	Required json.RawMessage
	AllOf    []schema
}

type operationObject struct {
	OperationID string
	Parameters  []parameter
	RequestBody requestBody
}

// extract makes an index of an OpenAPI document.
func extract(data []byte) (string, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return "", fmt.Errorf("read the document: %w", err)
	}
	var lines []string
	for path, item := range d.Paths {
		if strings.Contains(path, "?") {
			continue // the same operation once more, for another generator
		}
		var shared []parameter
		if raw, ok := item["parameters"]; ok {
			if err := json.Unmarshal(raw, &shared); err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
		}
		for _, method := range []string{"get", "head", "post", "put", "patch", "delete"} {
			raw, ok := item[method]
			if !ok {
				continue
			}
			var o operationObject
			if err := json.Unmarshal(raw, &o); err != nil {
				return "", fmt.Errorf("%s %s: %w", method, path, err)
			}
			o.Parameters = append(shared, o.Parameters...)
			lines = append(lines, strings.Join([]string{strings.ToUpper(method), d.prefix() + path, strings.Join(d.required(o), " "), o.OperationID}, "\t"))
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(order(a), order(b)) })
	head := fmt.Sprintf("# %s, version %s: method, path, required parameters, operation", d.Info.Title, d.Info.Version)
	return head + "\n" + strings.Join(lines, "\n") + "\n", nil
}

// order sorts by path, then by method.
func order(line string) string {
	method, rest, _ := strings.Cut(line, "\t")
	path, _, _ := strings.Cut(rest, "\t")
	return path + "\t" + method
}

func (d *document) prefix() string {
	if len(d.Servers) > 0 {
		if u, err := url.Parse(d.Servers[0].URL); err == nil {
			return strings.TrimSuffix(u.Path, "/")
		}
	}
	return strings.TrimSuffix(d.BasePath, "/")
}

func (d *document) required(o operationObject) []string {
	var out []string
	for _, p := range o.Parameters {
		name := p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]
		switch {
		case strings.HasPrefix(p.Ref, "#/components/"):
			p = d.Components.Parameters[name]
		case p.Ref != "":
			p = d.Parameters[name]
		}
		place := map[string]string{"path": "path", "query": "query", "formData": "body"}[p.In]
		switch {
		case p.In == "body":
			out = append(out, d.members(p.Schema)...)
		case p.Required && place != "" && p.Name != "token": // Slack lists the credential as a parameter
			out = append(out, place+":"+p.Name)
		}
	}
	body := o.RequestBody
	if body.Ref != "" {
		body = d.Components.RequestBodies[body.Ref[strings.LastIndexByte(body.Ref, '/')+1:]]
	}
	out = append(out, d.members(body.Content["application/json"].Schema)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// members lists what a schema requires of an object.
func (d *document) members(s schema) []string {
	if s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	var names, out []string
	_ = json.Unmarshal(s.Required, &names) // a boolean in old documents: nothing to list
	for _, name := range names {
		out = append(out, "body:"+name)
	}
	for _, part := range s.AllOf {
		out = append(out, d.members(part)...)
	}
	return out
}

var (
	documentFlag = flag.String("document", "", "OpenAPI document (JSON) to make an index of")
	indexFlag    = flag.String("index", "", "name of that index, without .tsv")
)

func TestExtract(t *testing.T) {
	const small = `{"openapi": "3.0.3", "info": {"title": "Small", "version": "1.2"}, "servers": [{"url": "https://api.small.test/v1/"}],
		"components": {"parameters": {"id": {"name": "id", "in": "path", "required": true}},
			"schemas": {"New": {"allOf": [{"required": ["text"]}, {"$ref": "#/components/schemas/Owned"}]}, "Owned": {"required": ["owner"]}}},
		"paths": {"/notes/{id}": {"parameters": [{"$ref": "#/components/parameters/id"}], "get": {"operationId": "getNote",
				"parameters": [{"name": "q", "in": "query", "required": true}, {"name": "r", "in": "query"}, {"name": "H", "in": "header", "required": true}]}},
			"/notes": {"post": {"operationId": "addNote", "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/New"}}}}},
				"get": {"operationId": "listNotes"}}}}`
	const want = "# Small, version 1.2: method, path, required parameters, operation\n" +
		"GET\t/v1/notes\t\tlistNotes\n" +
		"POST\t/v1/notes\tbody:owner body:text\taddNote\n" +
		"GET\t/v1/notes/{id}\tpath:id query:q\tgetNote\n"
	if got, err := extract([]byte(small)); err != nil || got != want {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
	if _, err := extract([]byte("{")); err == nil {
		t.Error("half a document made an index")
	}
	if *documentFlag != "" {
		writeIndex(t, *documentFlag, *indexFlag)
	}
}

func writeIndex(t *testing.T, from, name string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	index, err := extract(bytes.TrimPrefix(data, []byte("\ufeff")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "index", name+".tsv"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
}
