package openapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/getkin/kin-openapi/openapi3"
)

// Another reader of OpenAPI 3 finds the same operations with the same
// parameters and bodies in every document that it reads. It is an oracle of the
// tests only: it refuses a whole document for one mistake, and its package
// initialisation alone takes longer than `kimbap version`.
func TestAnotherReaderSeesTheSame(t *testing.T) {
	for _, name := range []string{"openapi30", "sound31"} {
		archive, err := os.ReadFile(filepath.Join("testdata", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(archive), "-- doc.yaml --\n")
		text, _, _ = strings.Cut(text, "-- report --\n")
		sameAsOracle(t, name, []byte(text))
	}
}

// sameAsOracle compares what the two readers make of one document.
func sameAsOracle(t *testing.T, name string, text []byte) int {
	t.Helper()
	loader := openapi3.NewLoader()
	theirs, err := loader.LoadFromData(text)
	if err != nil {
		t.Fatalf("%s: the oracle does not read it: %v", name, err)
	}
	d, err := openDocument(newLibrary(fstest.MapFS{"doc": {Data: text}}), "doc")
	if err != nil {
		t.Fatal(name, err)
	}
	ours := map[string]string{}
	list, _ := d.operations(func(what, why string) { t.Errorf("%s: %s was skipped: %s", name, what, why) })
	for _, o := range list {
		ours[o.String()] = d.seen(t, o)
	}
	count := 0
	for path, item := range theirs.Paths.Map() {
		for method, o := range item.Operations() {
			count++
			key := method + " " + path
			if got, want := ours[key], oracle(item, o); got != want {
				t.Errorf("%s: %s\n ours   %s\n theirs %s", name, key, got, want)
			}
			delete(ours, key)
		}
	}
	for key := range ours {
		t.Errorf("%s: only we see %s", name, key)
	}
	return count
}

// seen is an operation in one line: name, parameters, media types.
func (d *document) seen(t *testing.T, o *operation) string {
	t.Helper()
	params, err := d.parameters(&schemas{library: d.library}, o)
	if err != nil {
		t.Errorf("%s: %v", o, err)
	}
	var list []string
	for _, p := range params {
		list = append(list, line(p.in, p.name, p.required || p.in == "path", typeOf(d.schemaOf(t, p))))
	}
	body, err := d.follow(o.object.get("requestBody"))
	if err != nil {
		t.Errorf("%s: %v", o, err)
	}
	for media := range body.get("content").members() {
		list = append(list, "body "+media)
	}
	slices.Sort(list)
	return fmt.Sprint(o.id, o.tags, list)
}

func (d *document) schemaOf(t *testing.T, p parameter) value {
	t.Helper()
	v, err := d.follow(p.schema)
	if err != nil {
		t.Error(err)
	}
	return value{in: v.in, v: map[string]any{"type": v.get("type").v}}
}

func line(in, name string, required bool, typ string) string {
	return fmt.Sprintf("%s %s %t %s", in, name, required, typ)
}

func oracle(item *openapi3.PathItem, o *openapi3.Operation) string {
	own := o.Parameters
	for _, p := range item.Parameters {
		if own.GetByInAndName(p.Value.In, p.Value.Name) == nil {
			own = append(own, p)
		}
	}
	var list []string
	for _, ref := range own {
		p, typ := ref.Value, ""
		schema := p.Schema
		for _, media := range p.Content {
			schema = media.Schema
		}
		if schema != nil && schema.Value.Type != nil {
			types := slices.DeleteFunc(schema.Value.Type.Slice(), func(t string) bool { return t == "null" })
			if len(types) == 1 {
				typ = types[0]
			}
		}
		list = append(list, line(p.In, p.Name, p.Required || p.In == "path", typ))
	}
	if o.RequestBody != nil {
		for media := range o.RequestBody.Value.Content {
			list = append(list, "body "+media)
		}
	}
	slices.Sort(list)
	return fmt.Sprint(o.OperationID, o.Tags, list)
}
