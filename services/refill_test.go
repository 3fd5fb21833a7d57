package services_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// A file is filled again with the values that another has where its variables stand,
// whatever else is different there, and as an install would have filled it.
func TestAFileIsRefilledFromAnother(t *testing.T) {
	const template = "name: shop\nversion: 1.1.0\nbase_url: \"https://{site}.api{n}.example.com\" # where\nhosts: [\"{site}.files.example.com\"]\n" +
		"vars: {site: {pattern: \"[a-z.-]+\"}, n: {pattern: \"[0-9]\"}}\nallow_http: true\nauth: {type: none}\n" +
		"actions:\n  get-a: {description: A, method: GET, path: /a, risk: {level: low}}\n"
	for installed, want := range map[string]map[string]string{
		"base_url: https://my-shop.api2.example.com\n":                                                 {"site": "my-shop", "n": "2"},
		"hosts: [other.example.com, a.b.files.example.com]\nbase_url: https://elsewhere.example.com\n": {"site": "a.b"},
		"base_url: https://MY.api2.example.com\n":                                                      {"site": "MY", "n": "2"}, // which no pattern takes
		"name: [":     {},
		"- a list":    {},
		"":            {},
		"base_url: 7": {},
	} {
		refilled, values, err := services.Refilled("shop.yaml", []byte(template), []byte(installed))
		if err != nil || !maps.Equal(values, want) {
			t.Errorf("%q: %v %v", installed, values, err)
		}
		if whole := want["site"] == "my-shop"; whole != (refilled != nil) {
			t.Errorf("%q: refilled: %q", installed, refilled)
		} else if whole && string(refilled) != strings.NewReplacer("{site}", "my-shop", "{n}", "2").Replace(template) {
			t.Errorf("%q: refilled: %s", installed, refilled)
		}
	}
	twice := strings.Replace(template, "{site}.api{n}", "{site}.api{n}-{n}", 1)
	for installed, want := range map[string]string{"my.api2-2": "2", "my.api2-3": ""} { // which no value makes
		if _, values, err := services.Refilled("shop.yaml", []byte(twice), []byte("base_url: https://"+installed+".example.com\n")); err != nil || values["n"] != want {
			t.Errorf("%s: %v %v", installed, values, err)
		}
	}
	if _, _, err := services.Refilled("shop.yaml", []byte("name: shop\n"), nil); err == nil {
		t.Error("a file with mistakes was refilled")
	}
}
