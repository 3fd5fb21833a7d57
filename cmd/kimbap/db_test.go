package main

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
)

// Whoever looks at the shared database is told whether the connection to it is in clear, and
// whether the server at its other end has proved who it is.
func TestHowTheSharedDatabaseIsReached(t *testing.T) {
	t.Parallel()
	for want, db := range map[string]app.SharedDatabase{
		"none: the connection is in clear": {},
		"TLSv1.3":                          {TLS: "TLSv1.3", Verified: true},
		"TLSv1.3, not verified: sslmode=verify-full in store.dsn has the server prove who it is": {TLS: "TLSv1.3"},
	} {
		if got := tlsText(db); got != want {
			t.Errorf("%+v: %s", db, got)
		}
	}
}
