package servicestest

import (
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// Set is the set of one service alone, by the text of its file.
func Set(t testing.TB, file, text string) *services.Set {
	t.Helper()
	s, err := services.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet([]*services.Service{s})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Install is [services.Prepare] and [services.Ready.Write].
func Install(dir, file string, data []byte, vars map[string]string) (*services.Service, error) {
	r, err := services.Prepare(dir, file, data, vars)
	if err != nil {
		return nil, err
	}
	return r.Service, r.Write()
}
