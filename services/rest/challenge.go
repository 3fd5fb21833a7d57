package rest

import (
	"net/http"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// noteRefusal tells whoever lent the stored credential that the upstream has answered 401 to
// it. The answer itself goes on as it came. A 401 that says that something else is wrong, as
// insufficient_scope, tells nothing of the value.
func (x *exchange) noteRefusal(status int, header http.Header) {
	if status != http.StatusUnauthorized || x.message.used != runtime.CredentialStored || x.call.Credential.Refused == nil {
		return
	}
	if code := bearerError(header["Www-Authenticate"]); code == "" || code == "invalid_token" {
		x.call.Credential.Refused(code != "")
	}
}

// bearerError is the error code that the challenges of an answer give for a bearer token (RFC
// 6750 section 3), "" for none. Of several, invalid_token is the one.
func bearerError(fields []string) (code string) {
	for _, field := range fields {
		scheme := ""
		for _, item := range listItems(field) {
			if name, rest, ok := strings.Cut(item, " "); name != "" && !strings.Contains(name, "=") && (!ok || !strings.HasPrefix(strings.TrimLeft(rest, " \t"), "=")) {
				scheme, item = name, rest
			}
			name, value, _ := strings.Cut(item, "=")
			if !strings.EqualFold(scheme, "Bearer") || !strings.EqualFold(strings.Trim(name, " \t"), "error") {
				continue
			}
			if code = strings.Trim(value, " \t\""); code == "invalid_token" {
				return code
			}
		}
	}
	return code
}

// listItems are the parts of a field between its commas; a comma in a quoted string is none
// (RFC 9110 section 5.6.1).
func listItems(field string) (items []string) {
	from, quoted := 0, false
	for i := 0; i < len(field); i++ {
		switch c := field[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			items = append(items, strings.Trim(field[from:i], " \t"))
			from = i + 1
		}
	}
	return append(items, strings.Trim(field[from:], " \t"))
}
