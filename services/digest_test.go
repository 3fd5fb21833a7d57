package services

import (
	"fmt"
	"reflect"
	"regexp"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// defined is a definition in which no field is empty.
func defined(t *testing.T) (*runtime.Action, []classifier.Route) {
	t.Helper()
	a, r := &runtime.Action{}, []classifier.Route{{}}
	fill(t, reflect.ValueOf(a).Elem())
	fill(t, reflect.ValueOf(&r[0]).Elem())
	return a, r
}

// fill gives a value to everything below v.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"k": []any{"v"}}))
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*regexp.Regexp]() {
			v.Set(reflect.ValueOf(regexp.MustCompile("^x$")))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("no value for %s: teach the test", v.Type())
	}
}

// changes calls try for everything below v, each time with one thing changed.
func changes(v reflect.Value, path string, try func(path string)) {
	change := func(to reflect.Value, what string) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(to)
		try(path + what)
		v.Set(was)
	}
	if v.Kind() != reflect.Struct {
		change(reflect.Zero(v.Type()), " left out")
	}
	switch v.Kind() {
	case reflect.String:
		change(reflect.ValueOf("y").Convert(v.Type()), "")
	case reflect.Int, reflect.Int64:
		change(reflect.ValueOf(4).Convert(v.Type()), "")
	case reflect.Float64:
		change(reflect.ValueOf(2.5), "")
	case reflect.Interface:
		change(reflect.ValueOf("text"), "")
		change(reflect.ValueOf(map[string]any{"k": []any{"w"}}), "")
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*regexp.Regexp]() {
			change(reflect.ValueOf(regexp.MustCompile("^y$")), "")
			return
		}
		changes(v.Elem(), path, try)
	case reflect.Slice:
		change(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, 2), reflect.AppendSlice(v, v)), " twice")
		changes(v.Index(0), path+"[0]", try)
	case reflect.Map:
		key := v.MapKeys()[0]
		one := reflect.New(v.Type().Elem()).Elem()
		one.Set(v.MapIndex(key))
		changes(one, path+"[x]", func(path string) {
			was := reflect.New(v.Type().Elem()).Elem()
			was.Set(v.MapIndex(key))
			v.SetMapIndex(key, one)
			try(path)
			v.SetMapIndex(key, was)
		})
	case reflect.Struct:
		for i := range v.NumField() {
			changes(v.Field(i), path+"."+v.Type().Field(i).Name, try)
		}
	}
}

// An approval is for one definition: whatever of it changes, all of its fields,
// it is another. Where it stands in its file is not part of it.
func TestTheDigestIsOverEveryField(t *testing.T) {
	a, r := defined(t)
	of := func() string { return (&definition{}).digest(a, r) }
	want, tried := of(), map[string]string{}
	try := func(path string) {
		got := of()
		switch path {
		case "action.Digest", "action.Digest left out", "action.Source", "action.Source left out", "route.Source", "route.Source left out",
			"route.Rank", "route.Rank left out": // that of the action's risk
			if got != want {
				t.Errorf("%s is part of the digest", path)
			}
			return
		}
		if got == want {
			t.Errorf("%s is not part of the digest", path)
		}
		if other, twice := tried[got]; twice {
			t.Errorf("%s and %s make the same digest", path, other)
		}
		tried[got] = path
	}
	changes(reflect.ValueOf(a).Elem(), "action", try)
	changes(reflect.ValueOf(&r[0]).Elem(), "route", try)
	if of() != want || len(tried) < 150 {
		t.Errorf("%d changes were tried", len(tried))
	}
	d := &definition{}
	if first := d.digest(a, r); d.digest(a, r) != first {
		t.Error("the room of one digest changes the next")
	}
}

// A yes holds for as long as the definition does: a field that came later leaves the digest of
// definitions without it as it was. Where this one has to change, every yes ends.
func TestADefinitionKeepsItsDigestWhenFieldsAreAdded(t *testing.T) {
	a := &runtime.Action{
		Ref: "notes.get-note", Service: "notes", Name: "get-note", Risk: runtime.RiskLow,
		Params: []runtime.Param{{Name: "id", Type: "string", In: "path", Required: true}},
		Auth:   &runtime.Auth{Type: runtime.AuthBearer, Ref: "notes.token"},
		HTTP:   &runtime.HTTPSpec{BaseURL: "https://notes.test", Method: "GET", Path: "/notes/{id}", Authorities: []string{"notes.test:443"}},
	}
	routes := []classifier.Route{{Action: "notes.get-note", Service: "notes", Path: "/notes/{id}", Authorities: a.HTTP.Authorities, Methods: []string{"GET"}}}
	const want = "c32eec88849bff386b0147672a38d9cda260738cd247c05336a4c4b9df786f79"
	if got := (&definition{}).digest(a, routes); got != want {
		t.Errorf("the digest is %s, was %s", got, want)
	}
}

// The segment of the credential is counted in the target, with base_url's path.
func TestTheSegmentOfTheCredentialIsCountedFromTheTarget(t *testing.T) {
	for base, want := range map[string][]int{"https://b.test": {1, 2, 0}, "https://b.test/": {1, 2, 0}, "https://b.test/v1/x": {3, 4, 0}} {
		s, err := Parse("b.yaml", fmt.Appendf(nil, `
name: b
version: 1.0.0
base_url: %s
auth: {type: path, credential_ref: b.token, path: {segment: token, prefix: bot}}
actions:
  one: {method: GET, path: "/{token}/get"}
  two: {method: GET, path: "/file/{token}/{path...}"}
  none: {method: GET, path: "/{token...}"}
`, base))
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range s.Actions {
			if a.HTTP.Segment != want[i] {
				t.Errorf("%s: %s has its credential in segment %d, want %d", base, a.Name, a.HTTP.Segment, want[i])
			}
		}
	}
}
