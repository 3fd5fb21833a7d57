package openapi_test

import (
	"maps"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// built is the request of an action that a document is imported to, with its service.
func built(t *testing.T, paths, action string, args runtime.Args) (*runtime.Built, *services.Set) {
	t.Helper()
	r, err := one(t, head+paths+`}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, r)
	set := parse(t, r)
	found, err := set.Resolve(&runtime.Request{Action: runtime.Ref("x." + action), Args: args})
	if err != nil {
		t.Fatalf("%v\n%s", err, r.YAML)
	}
	return found.Built, set
}

func withBody(method, media, schema string) string {
	return `"/a": {"` + method + `": {"operationId": "it", "requestBody": {"content": {"` + media + `": {"schema": ` + schema + `}}}}}`
}

// The members of a body stay in it where the method's other arguments go into the query.
func TestTheBodyOfADeleteStaysTogether(t *testing.T) {
	for _, media := range []string{"application/json", "application/x-www-form-urlencoded"} {
		const schema = `{"type": "object", "required": ["sha"], "properties": {"sha": {"type": "string"}, "who": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}, "additionalProperties": true}`
		b, _ := built(t, withBody("delete", media, schema), "it", runtime.Args{"body": map[string]any{"sha": "1", "who": "me"}})
		if body := string(b.Body); b.Target != "/a" || body != `{"sha":"1","who":"me"}` && body != "sha=1&who=me" {
			t.Errorf("%s: %s %s", media, b.Target, b.Body)
		}
	}
	b, _ := built(t, withBody("delete", "application/json", `{"type": "object", "properties": {"sha": {"type": "string"}}}`), "it", runtime.Args{"sha": "1"})
	if b.Target != "/a" || string(b.Body) != `{"sha":"1"}` {
		t.Errorf("%s %s", b.Target, b.Body)
	}
}

// A type that ends in +json is what some APIs tell writes by, and others take alone.
func TestAKindOfJSONIsSentAsIt(t *testing.T) {
	const schema = `{"type": "object", "properties": {"a": {"type": "string"}}}`
	for media, want := range map[string]string{
		"application/merge-patch+json": "application/merge-patch+json", "application/vnd.api+json; ext=x": "application/vnd.api+json; ext=x",
		"application/json": "application/json", "application/json; charset=utf-8": "application/json", "application/*+json": "application/json", "*/*": "application/json",
		`application/json-patch+json": {"schema": {}}, "application/merge-patch+json`: "application/merge-patch+json",
	} {
		b, _ := built(t, withBody("patch", media, schema), "it", runtime.Args{"a": "1"})
		if got := b.Header.Get("Content-Type"); got != want || string(b.Body) != `{"a":"1"}` {
			t.Errorf("%s is sent as %q: %s", media, got, b.Body)
		}
	}
	b, _ := built(t, withBody("patch", "application/json-patch+json", `{"type": "array"}`), "it", runtime.Args{"body": []any{"x"}})
	if got := b.Header.Get("Content-Type"); got != "application/json-patch+json" {
		t.Error(got)
	}
}

// What is a secret by its name is not recorded, in a query neither. A program that sends
// it where no action declares it has a keyed hash in the trail.
func TestASecretInAQueryIsOne(t *testing.T) {
	r, err := one(t, head+`"/signin/{pin}": {"post": {"parameters": [{"name": "pin", "in": "path", "required": true, "schema": {"type": "string"}}, {"name": "username", "in": "query", "schema": {"type": "string"}},
		{"name": "password", "in": "query", "schema": {"type": "string"}}, {"name": "word", "in": "query", "schema": {"type": "string", "format": "password"}}, {"name": "passcode", "in": "query", "schema": {"type": "string"}},
		{"name": "oldPasswd", "in": "query", "schema": {"type": "string"}}, {"name": "apikey", "in": "query", "schema": {"type": "string"}}, {"name": "date", "in": "query", "schema": {"type": "string", "format": "date"}}, {"name": "X-Api-Key", "in": "header", "schema": {"type": "string"}}, {"name": "page_token", "in": "query", "schema": {"type": "string"}}]}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	secret := map[string]bool{}
	for _, a := range parse(t, r).Services()[0].Actions {
		for _, p := range a.Params {
			secret[p.Name] = p.Secret
		}
	}
	if want := map[string]bool{"pin": false, "username": false, "password": true, "word": true, "passcode": true, "oldPasswd": true, "apikey": true, "date": false, "X-Api-Key": true, "page_token": false}; !maps.Equal(secret, want) {
		t.Errorf("%v, want %v", secret, want)
	}
}

// A default is what the server assumes for something new. In a change it would undo what
// is there: a new description would make a private repository public.
func TestAChangeSendsWhatIsGivenAlone(t *testing.T) {
	const members = `{"type": "object", "properties": {"description": {"type": "string"}, "private": {"type": "boolean", "default": false, "description": "Who may see it."}, "state": {"type": "string", "default": "open"}, "n": {"type": "integer", "default": 7, "description": "How many"}}}`
	for _, method := range []string{"patch", "put"} {
		for media, want := range map[string]string{"application/json": `{"description":"new"}`, "application/x-www-form-urlencoded": "description=new"} {
			b, set := built(t, withBody(method, media, members), "it", runtime.Args{"description": "new"})
			if got := string(b.Body); got != want {
				t.Errorf("%s of %s sends %s", method, media, got)
			}
			said := map[string]string{}
			for _, p := range set.Services()[0].Actions[0].Params {
				said[p.Name] = p.Description
			}
			if want := map[string]string{"description": "", "private": "Who may see it (default: false)", "state": "(default: open)", "n": "How many (default: 7)"}; !maps.Equal(said, want) {
				t.Errorf("%v, want %v", said, want)
			}
		}
	}
}

// A default is what the server assumes where nothing is given. Sent, it goes with values that it
// does not go with: GitHub refuses a type beside a visibility, and a choice has no members of another.
func TestWhatTheServerAssumesIsNotSent(t *testing.T) {
	const choice = `{"oneOf": [{"type": "object", "properties": {"card": {"type": "string"}}},
		{"type": "object", "properties": {"iban": {"type": "string"}, "mode": {"type": "string", "enum": ["core", "b2b"], "default": "core"}}}]}`
	if b, _ := built(t, withBody("post", "application/json", choice), "it", runtime.Args{"card": "1"}); string(b.Body) != `{"card":"1"}` {
		t.Errorf("of a choice %s is sent", b.Body)
	}
	const members = `{"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 7}}}`
	if b, _ := built(t, withBody("post", "application/x-www-form-urlencoded", members), "it", runtime.Args{"name": "new"}); string(b.Body) != "name=new" {
		t.Errorf("of a form %s is sent", b.Body)
	}
	b, set := built(t, `"/a": {"get": {"operationId": "it", "parameters": [
		{"name": "type", "in": "query", "schema": {"type": "string", "enum": ["all", "owner"], "default": "all"}, "description": "Which"},
		{"name": "X-Trace", "in": "header", "schema": {"type": "boolean", "default": false}},
		{"name": "page", "in": "query", "style": "deepObject", "schema": {"type": "object", "properties": {"size": {"type": "integer", "default": 30}}}}]}}`, "it", nil)
	if b.Target != "/a" || len(b.Header.Values("X-Trace")) > 0 {
		t.Errorf("%s %v", b.Target, b.Header)
	}
	said := map[string]string{}
	for _, p := range set.Services()[0].Actions[0].Params {
		said[p.Name] = p.Description
	}
	if want := map[string]string{"type": "Which (default: all)", "X-Trace": "(default: false)", "page.size": "(default: 30)"}; !maps.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
}

// One that the argument itself does not take says nothing, and leaves no operation out.
func TestADefaultThatIsOutOfBoundsIsNone(t *testing.T) {
	const parameters = `"/a": {"get": {"operationId": "it", "parameters": [{"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 1, "default": 0}},
		{"name": "m", "in": "query", "schema": {"type": "number", "maximum": 1.5, "default": 2}}, {"name": "fits", "in": "query", "schema": {"type": "number", "minimum": 0.5, "maximum": 2, "default": 2}}]}}`
	_, set := built(t, parameters, "it", nil)
	for _, p := range set.Services()[0].Actions[0].Params {
		if said := p.Description; said != "" && p.Name != "fits" || said == "" && p.Name == "fits" {
			t.Errorf("%s: %q", p.Name, said)
		}
	}
}
