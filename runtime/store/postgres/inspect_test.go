//go:build unix

package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// Where an address names several servers, who looks is told of each, and which of them it is.
func TestEachServerOfAnAddressIsNamed(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	gone, here, name := server.Line(t), server.Line(t), server.Database(t)
	opened(t, here.DSN(name), true)
	host := func(l *postgrestest.Line) string {
		u, err := url.Parse(l.DSN(name))
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	gone.Cut()
	both := strings.Replace(here.DSN(name), host(here), host(gone)+","+host(here), 1) + "?sslmode=disable"
	found, err := postgres.Inspect(t.Context(), postgres.Options{DSN: both})
	if err != nil || found.Name != host(gone)+"/"+name || strings.Join(found.Servers, " ") != host(gone)+" "+host(here) || found.Answered != host(here) {
		t.Errorf("%+v, %v", found, err)
	}
	one, err := postgres.Inspect(t.Context(), postgres.Options{DSN: here.DSN(name)})
	if err != nil || one.Servers != nil || one.Answered != "" {
		t.Errorf("%+v, %v", one, err)
	}
}
