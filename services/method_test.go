package services_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/services"
)

// An API may have a method of its own that rhymes with a usual one; who mistypes GET begins
// it with a G.
func TestAnAPIMayHaveMethodsOfItsOwn(t *testing.T) {
	t.Parallel()
	for method, taken := range map[string]bool{
		"READ": true, "SET": true, "FIND": true, "BLOCK": true, "BCOPY": true, "BPROPFIND": true, "REFRESH": true, "PURGE": true,
		"GETT": false, "GGET": false, "EGT": false, "HAED": false, "PACH": false, "POSTS": false, "PROPFND": false,
	} {
		_, err := services.Parse("f.yaml", []byte("name: a\nversion: 1.0.0\nbase_url: https://a.test\nactions: {x: {method: "+method+", path: /x}}\n"))
		if (err == nil) != taken {
			t.Errorf("%s: %v", method, err)
		}
	}
}
