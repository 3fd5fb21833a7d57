package app_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// The members that answers have are those that the description of the API has, to the last:
// one that is added to an answer, or taken away, is so in both.
func TestTheMembersOfAnswersAreDescribed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	d := describedBy(t, &api{k.ServeAPI(t, app.APIOptions{Proxy: true}), newAPI(t, k).client})
	schema := func(name string) []string { return []string{"components", "schemas", name} }
	answer := func(path, status string) []string {
		method := "get"
		if status == "201" {
			method = "post"
		}
		return []string{"paths", path, method, "responses", status, "content", "application/json", "schema"}
	}
	for _, c := range []struct {
		at   []string
		kind reflect.Type
	}{
		{schema("Service"), reflect.TypeFor[app.Available]()},
		{schema("Action"), reflect.TypeFor[runtime.Described]()},
		{schema("Result"), reflect.TypeFor[sandbox.Result]()},
		{schema("Approval"), reflect.TypeFor[struct {
			app.Approval
			Text string `json:"text"`
		}]()},
		{schema("Standing"), reflect.TypeFor[app.Standing]()},
		{schema("Token"), reflect.TypeFor[struct {
			app.TokenInfo
			Token string `json:"token"`
		}]()},
		{schema("Secret"), reflect.TypeFor[struct {
			app.Stored
			Command int `json:"-"` // is not shown over the network
		}]()},
		{answer("/v1/tools", "200"), reflect.TypeFor[struct {
			TypeScript  string               `json:"typescript"`
			Definitions []sandbox.Definition `json:"definitions"`
		}]()},
		{answer("/v1/tools/search", "200"), reflect.TypeFor[sandbox.Found]()},
		{answer("/v1/tools/advice", "200"), reflect.TypeFor[[]app.Advice]()},
		{answer("/v1/proxy/runs/{run}", "200"), reflect.TypeFor[app.Counts]()},
		{answer("/v1/proxy/tokens", "201"), reflect.TypeFor[app.MadeForRun]()},
	} {
		d.compare(t, strings.Join(c.at, " "), d.at(c.at...), c.kind)
	}
}

// compare compares a schema with the type whose values it describes.
func (d *description) compare(t *testing.T, at string, described any, kind reflect.Type) {
	t.Helper()
	schema := d.resolved(described)
	if schema == nil {
		t.Errorf("%s: there is no schema", at)
		return
	}
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case kind == reflect.TypeFor[time.Time]() || kind == reflect.TypeFor[json.RawMessage]():
	case kind.Kind() == reflect.Slice:
		if schema["items"] == nil {
			t.Errorf("%s: what is in the list is not described", at)
			return
		}
		d.compare(t, at+"[]", schema["items"], kind.Elem())
	case kind.Kind() == reflect.Struct:
		has := membersOf(kind)
		said, _ := schema["properties"].(map[string]any)
		if names, described := slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(said)); !slices.Equal(names, described) {
			t.Errorf("%s has %v, described are %v", at, names, described)
			return
		}
		for name, inner := range has {
			d.compare(t, at+"."+name, said[name], inner)
		}
	}
}

// membersOf are the members that a struct is written with.
func membersOf(kind reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range kind.NumField() {
		f := kind.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && f.Name == "Command":
			delete(out, "command")
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			maps.Copy(out, membersOf(f.Type))
		case name == "":
			out[f.Name] = f.Type
		default:
			out[name] = f.Type
		}
	}
	return out
}
