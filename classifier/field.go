package classifier

import "net/http"

// fieldTwin reports whether a head has the field under another name that some
// server takes for it: CGI and WSGI make one variable of X_Action and X-Action.
// The key is canonical.
func fieldTwin(header http.Header, key string) bool {
	for name := range header {
		if name != key && len(name) == len(key) && sameField(name, key) {
			return true
		}
	}
	return false
}

func sameField(a, b string) bool {
	for i := range len(a) {
		if foldField(a[i]) != foldField(b[i]) {
			return false
		}
	}
	return true
}

func foldField(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

func otherField(key string) *Error {
	return badInput(reasonDuplicateParameter, "header field %s is also given in another spelling", key)
}
