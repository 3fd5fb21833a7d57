package openapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// deep is written as Stripe's document is: what stands in brackets behind a name.
const deep = head + `"/charges": {
	"get": {"operationId": "list", "parameters": [
		{"name": "created", "in": "query", "style": "deepObject", "explode": true, "schema": {"anyOf": [
			{"type": "object", "properties": {"gte": {"type": "integer"}, "in": {"type": "array", "items": {"type": "string"}}, "at": {"type": "object", "properties": {"day": {"type": "integer"}}}}}, {"type": "integer"}]}},
		{"name": "expand", "in": "query", "style": "deepObject", "explode": true, "schema": {"type": "array", "items": {"type": "string"}}},
		{"name": "metadata", "in": "query", "style": "deepObject", "explode": true, "schema": {"type": "object", "additionalProperties": {"type": "string"}}},
		{"name": "limit", "in": "query", "style": "deepObject", "schema": {"type": "integer"}}]},
	"post": {"operationId": "add", "requestBody": {"content": {"application/x-www-form-urlencoded": {
		"encoding": {"card": {"style": "deepObject", "explode": true}, "expand": {"style": "deepObject"}, "metadata": {"style": "deepObject"}},
		"schema": {"type": "object", "required": ["card"], "properties": {
			"amount": {"type": "integer"}, "plain": {"type": "object", "properties": {"x": {"type": "string"}}},
			"card": {"type": "object", "required": ["number"], "properties": {"number": {"type": "string"}, "cvc": {"type": "string"}, "owner": {"type": "object", "properties": {"name": {"type": "string"}}}}},
			"expand": {"type": "array", "items": {"type": "string"}},
			"metadata": {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string", "enum": [""]}]}}}}}}}}}}`

// builds is the query and the body of a call.
func builds(t *testing.T, set *services.Set, action string, args runtime.Args) string {
	t.Helper()
	found, err := set.Resolve(&runtime.Request{Action: runtime.Ref(action), Args: args})
	if err != nil {
		t.Errorf("%s: %v", action, err)
		return ""
	}
	_, query, _ := strings.Cut(found.Built.Target, "?")
	return query + string(found.Built.Body)
}

// Members of an object that the description puts in brackets are arguments of their own.
func TestObjectsInBracketsAreTheirMembers(t *testing.T) {
	r, err := one(t, deep, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, r)
	set := parse(t, r)
	for _, c := range []struct {
		action string
		args   runtime.Args
		want   string
	}{
		{"x.list", runtime.Args{"created.gte": "1", "created.in": []any{"a", "b"}, "expand": []any{"data"}, "limit": "3"}, "created%5Bgte%5D=1&created%5Bin%5D%5B%5D=a&created%5Bin%5D%5B%5D=b&expand%5B%5D=data&limit=3"},
		{"x.add", runtime.Args{"amount": "5", "card.number": "42", "expand": []any{"a"}, "more": map[string]any{"card[owner][name]": "me", "metadata[k]": "v"}},
			"amount=5&card%5Bnumber%5D=42&card%5Bowner%5D%5Bname%5D=me&expand%5B%5D=a&metadata%5Bk%5D=v"},
	} {
		if got := builds(t, set, c.action, c.args); got != c.want {
			t.Errorf("%s: %s", c.action, got)
		}
	}
	text := string(r.YAML)
	for _, line := range []string{"{name: card.number, type: string, required: true}", `other members: card[owner], metadata"`, "{name: plain, type: string}"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if !strings.Contains(r.Report(), "objects in the query whose members are not listed were left out: 2") {
		t.Error(r.Report())
	}
	for _, target := range []string{"created[gte]=1", "created[lt]=1", "created=1", "created[at][day]=1", "expand[]=a&expand[]=b", "expand[0]=a", "metadata[a]=b"} {
		got, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "x.test:443", Method: http.MethodGet, Target: "/charges?" + target, Header: http.Header{}})
		if err != nil || got.Action != "x.list" {
			t.Errorf("a program's %s is %q: %v", target, got.Action, err)
		}
	}
}

// What would be more arguments than an action may have is still imported.
func TestObjectsOfManyMembersAreNotTakenApart(t *testing.T) {
	var members []string
	for c := range 200 {
		members = append(members, `"m`+strings.Repeat("x", c)+`": {"type": "string"}`)
	}
	object := `{"type": "object", "properties": {` + strings.Join(members, ", ") + `}}`
	r, err := one(t, head+`"/a": {"post": {"operationId": "add", "requestBody": {"content": {"application/x-www-form-urlencoded": {
		"encoding": {"a": {"style": "deepObject"}, "b": {"style": "deepObject"}},
		"schema": {"type": "object", "properties": {"a": `+object+`, "b": `+object+`, "c": {"type": "string"}}}}}}}}}}`, openapi.Options{Name: "x"})
	if err != nil || r.Imported != 1 || !strings.Contains(string(r.YAML), `other members: b"`) {
		t.Fatalf("%v\n%s", err, r.YAML)
	}
}

// A list that stands in one value is described with what stands between.
func TestListsInOneValueAreDescribed(t *testing.T) {
	r, err := one(t, head+`"/a": {"get": {"parameters": [
		{"name": "j", "in": "query", "content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}},
		{"name": "c", "in": "query", "explode": false, "schema": {"type": "array"}},
		{"name": "s", "in": "query", "style": "spaceDelimited", "explode": false, "schema": {"type": "array"}},
		{"name": "p", "in": "query", "style": "pipeDelimited", "explode": false, "schema": {"type": "array"}}]}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	old, err := one(t, `{"swagger": "2.0", "host": "x.test", "paths": {"/a": {"get": {"parameters": [
		{"name": "csv", "in": "query", "type": "array", "items": {"type": "string"}},
		{"name": "ssv", "in": "query", "type": "array", "collectionFormat": "ssv", "items": {"type": "string"}},
		{"name": "tsv", "in": "query", "type": "array", "collectionFormat": "tsv", "items": {"type": "string"}},
		{"name": "pipes", "in": "query", "type": "array", "collectionFormat": "pipes", "items": {"type": "string"}}]}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string]string{
		"j": "(a list, as JSON)", "c": "(several with commas between)", "s": "(several with blanks between)", "p": "(several with | between)",
		"csv": "(several with commas between)", "ssv": "(several with blanks between)", "tsv": "(several with tabs between)", "pipes": "(several with | between)",
	} {
		if line := "{name: " + name + `, type: string, description: "` + with + `"}`; !strings.Contains(string(r.YAML)+string(old.YAML), line) {
			t.Errorf("no %s in\n%s%s", line, r.YAML, old.YAML)
		}
	}
	if got := builds(t, parse(t, r), "x.get-a", runtime.Args{"j": `["a","b"]`, "p": "a|b"}); got != "j=%5B%22a%22%2C%22b%22%5D&p=a%7Cb" {
		t.Error(got)
	}
}

func TestAnObjectOfTooManyMembersIsNamed(t *testing.T) {
	var members []string
	for i := range 251 {
		members = append(members, fmt.Sprintf(`"a%d": {"type": "string"}`, i))
	}
	r, err := one(t, head+`"/a": {"get": {"parameters": [{"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object", "properties": {`+strings.Join(members, ",")+`}}}]}}}}`, openapi.Options{})
	if err != nil || r.Imported != 1 || !strings.Contains(r.Report(), "objects in the query with more members than an action has arguments were left out: 1") {
		t.Errorf("%v %s", err, r.Report())
	}
}

// A list that stands in one value of a form, and an object that stands in one of a query, are a
// text: taken apart they would be sent as what the description does not have.
func TestWhatStandsInOneValueIsAText(t *testing.T) {
	send := func(doc, action string, args runtime.Args) string {
		t.Helper()
		r, err := one(t, doc, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, r)
		set := parse(t, r)
		for _, p := range set.Services()[0].Actions[0].Params {
			if _, isText := args[p.Name].(string); isText != (p.Type != runtime.TypeArray) {
				t.Errorf("%s is of type %s", p.Name, p.Type)
			}
		}
		return builds(t, set, "x."+action, args)
	}
	const fields = `{"swagger": "2.0", "host": "x.test", "paths": {"/a": {"post": {"operationId": "it", "consumes": ["application/x-www-form-urlencoded"], "parameters": [
		{"name": "csv", "in": "formData", "type": "array", "items": {"type": "string"}}, {"name": "pipes", "in": "formData", "type": "array", "collectionFormat": "pipes", "items": {"type": "string"}},
		{"name": "multi", "in": "formData", "type": "array", "collectionFormat": "multi", "items": {"type": "string"}}]}}}}`
	if got := send(fields, "it", runtime.Args{"csv": "1,2", "pipes": "3|4", "multi": []any{"5", "6"}}); got != "csv=1%2C2&multi=5&multi=6&pipes=3%7C4" {
		t.Errorf("Swagger: %s", got)
	}
	const encoded = head + `"/a": {"post": {"operationId": "it", "requestBody": {"content": {"application/x-www-form-urlencoded": {"encoding": {"csv": {"explode": false}, "blanks": {"style": "spaceDelimited", "explode": false}},
		"schema": {"type": "object", "properties": {"csv": {"type": "array", "items": {"type": "integer"}}, "blanks": {"type": "array", "items": {"type": "string"}}, "each": {"type": "array", "items": {"type": "string"}}}}}}}}}}}`
	if got := send(encoded, "it", runtime.Args{"csv": "1,2", "blanks": "3 4", "each": []any{"5", "6"}}); got != "blanks=3+4&csv=1%2C2&each=5&each=6" {
		t.Errorf("encoding: %s", got)
	}
	const object = head + `"/a": {"get": {"operationId": "it", "parameters": [{"name": "col", "in": "query", "explode": false, "schema": {"type": "object", "properties": {"R": {"type": "integer"}, "G": {"type": "integer"}}}},
		{"name": "sp", "in": "query", "schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}]}}}}`
	if got := send(object, "it", runtime.Args{"col": "R,1,G,2", "x": "3"}); got != "col=R%2C1%2CG%2C2&x=3" {
		t.Errorf("an object: %s", got)
	}
}
