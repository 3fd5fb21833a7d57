package condition

import "testing"

// A rule on the path finds it however it is escaped, where all servers read it alike.
func TestAPathIsSeenWithoutNeedlessEscapes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"":                     "",
		"/admin":               "/admin",
		"/%61dmin":             "/admin",
		"/%61%64m%69n%2F%2fx":  "/admin%2F%2fx",
		"/%40acme%2fpkg%3Arun": "/@acme%2fpkg:run",
		"/a%2561%25":           "/a%2561%25",
		"/a%3Bb%3fc%23d%20%5C": "/a%3Bb%3fc%23d%20%5C",
		"/caf%C3%A9":           "/caf%C3%A9",
		"/100%/%6/%zz/%+1/%":   "/100%/%6/%zz/%+1/%",
		"/%%361":               "/%61",
	} {
		if got := needlessDecoded(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
