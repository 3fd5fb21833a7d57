package openapi_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services/openapi"
)

// Of a path that stands twice the last would count alone, and a POST of the first be an ordinary
// write that nobody counted.
func TestAPathThatStandsTwiceIsRefused(t *testing.T) {
	const start = "openapi: 3.0.3\nservers: [{url: 'https://x.test'}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"path":         {head + `"/keys": {"post": {}}, "/keys": {"get": {}}}}`, `"/keys" is given twice`},
		"escaped path": {head + `"/keys": {"post": {}}, "\/k\u0065ys": {"get": {}}}}`, `"/keys" is given twice`},
		"method":       {head + `"/keys": {"post": {}, "get": {}, "post" : {"operationId": "b"}}}}`, `"post" is given twice`},
		"paths":        {head + `"/keys": {"post": {}}}, "paths": {"/a": {"get": {}}}}`, `"paths" is given twice`},
		"YAML path":    {start + "paths:\n  /keys:\n    post: {}\n  /keys:\n    get: {}\n", `line 6: the name "/keys" is given twice, first on line 4`},
		"YAML method":  {start + "paths:\n  /keys:\n    post: {}\n    post: {operationId: a}\n", `line 6: the name "post" is given twice`},
	} {
		if _, err := one(t, c.text, openapi.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"beside": head + `"/a": {"get": {"operationId": "get", "description": "\"/a\": \\"}, "post": {}}, "/b": {"get": {"tags": ["get", "get"]}}}, "x": {"get": 1, "y": [{"get": "get"}, {"get": 2}]}}`,
		"merged": start + "x: &m {get: {operationId: a}}\npaths:\n  /a:\n    <<: *m\n    get: {operationId: b}\n  /b:\n    get: {}\n",
	} {
		if _, err := one(t, text, openapi.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
