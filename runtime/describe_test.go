package runtime

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
)

// What is told of an action is enough to read its arguments, and comes back the same.
func TestADescriptionComesBack(t *testing.T) {
	low, most := 1.0, 9
	action := &Action{
		Ref: "notes.get-note", Service: "notes", Name: "get-note", Description: "Read", Risk: RiskLow, Idempotent: true,
		Auth: &Auth{Type: AuthBearer, Ref: "notes.token"},
		HTTP: &HTTPSpec{Method: "GET", Methods: []string{"GET", "HEAD"}, Path: "/notes/{id}", Authorities: []string{"api.notes.test:443"}, BodyType: "json", Pages: &Pagination{}},
		Params: []Param{
			{Name: "id", Type: TypeInteger, In: InPath, Required: true, Minimum: &low},
			{Name: "tag", Type: TypeString, In: InQuery, Enum: []any{"a", "b"}, Pattern: regexp.MustCompile("^[ab]$"), MaxLength: &most, Secret: true},
		},
	}
	text, err := json.Marshal(action.Describe())
	if err != nil {
		t.Fatal(err)
	}
	var d Described
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	back := d.Told()
	if !reflect.DeepEqual(back.Describe(), action.Describe()) || !reflect.DeepEqual(back.Params, action.Params) {
		t.Errorf("%+v\nis not\n%+v", back, action)
	}
	if back.Auth.Ref != "" || regexp.MustCompile("notes.token").Match(text) {
		t.Errorf("the credential's name is told: %s", text)
	}
}
