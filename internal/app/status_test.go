package app_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
)

// A field that says what to do is one of those into which the command writes the home.
func TestEachFixOfAStatusIsOneOfItsFixes(t *testing.T) {
	t.Parallel()
	var s app.Status
	for _, fix := range s.Fixes() {
		*fix = "found"
	}
	v, fixes := reflect.ValueOf(s), 0
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; strings.HasSuffix(name, "Fix") {
			fixes++
			if v.Field(i).String() != "found" {
				t.Error(name)
			}
		}
	}
	if fixes < 9 {
		t.Errorf("%d fixes", fixes)
	}
}
