//go:build unix

package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// stored is a row of a home's file.
type stored struct {
	table   string
	columns []string
	values  []any
}

func (s stored) is(table, name string) bool {
	return s.table == table && slices.Contains(s.values, any(name))
}

// filed are rows of each kind that a person removes, made some hours ago, and a token that has ended.
func filed() []stored {
	at, ends := time.Now().Add(-5*time.Hour).UnixMicro(), time.Now().Add(time.Hour).UnixMicro()
	secret := strings.Split("tenant, name, version, key_version, authorities, reference, ciphertext, created, last_used, expires, fingerprints", ", ")
	token := strings.Split("hash, id, tenant, agent, run, scopes, roles, groups, creator, created, expires, revoked", ", ")
	key := []string{"tenant", "version", "wrapped", "created"}
	empty := int64(0)
	return []stored{
		{"vault", []string{"id", "check_value", "locked", "locked_by", "locked_until"}, []any{int64(1), []byte("check"), empty, "", empty}},
		{"tenant_keys", key, []any{"default", int64(1), []byte("k"), at}},
		{"tenant_keys", key, []any{"acme", int64(1), []byte("k"), at}},
		{"secrets", secret, []any{"default", "notes.token", int64(1), int64(1), "[]", "", []byte("c"), at, empty, empty, "[]"}},
		{"tokens", token, []any{[]byte("1"), "tok_run", "default", "a", "run_1", "[]", "[]", "[]", "local:1", at, ends, empty}},
		{"tokens", token, []any{[]byte("2"), "tok_ended", "default", "a", "", "[]", "[]", "[]", "local:1", at, at + 1, empty}},
		{"tokens", token, []any{[]byte("3"), "tok_endless", "plain", "a", "", "[]", "[]", "[]", "local:1", at, empty, empty}},
		{"pins", []string{"tenant", "who", "sealed", "set_at", "tries", "until"}, []any{"default", "local:1", []byte("p"), at, empty, empty}},
	}
}

// A move that was cut short is finished where the file is as it was then, and refused where
// something was removed from it, or prolonged, since: that would be undone. What others did in
// the database meanwhile stands in no way.
func TestAMoveIsNotFinishedOverWhatWasTakenAway(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	without := func(table, name string) func([]stored) []stored {
		return func(rows []stored) []stored {
			return slices.DeleteFunc(rows, func(s stored) bool { return s.is(table, name) })
		}
	}
	later := fmt.Sprintf("%d", time.Now().Add(24*time.Hour).UnixMicro())
	for name, c := range map[string]struct {
		file     func([]stored) []stored
		database string // a statement there
		refused  string // the table that it is for; "": it is finished
	}{
		"nothing":                         {},
		"a credential was removed":        {file: without("secrets", "notes.token"), refused: "secrets"},
		"a PIN was removed":               {file: without("pins", "local:1"), refused: "pins"},
		"a tenant was removed":            {file: without("tenant_keys", "acme"), refused: "tenant_keys"},
		"one without a key was removed":   {file: without("tokens", "tok_endless"), refused: "tokens"},
		"a token that has ended is swept": {file: without("tokens", "tok_ended")},
		"a token was prolonged": {file: func(rows []stored) []stored {
			for _, s := range rows {
				if s.is("tokens", "tok_run") {
					s.values[slices.Index(s.columns, "expires")] = time.Now().Add(2 * time.Hour).UnixMicro()
				}
			}
			return rows
		}, refused: "tokens"},
		"others prolonged it":     {database: "UPDATE kimbap.tokens SET expires = " + later + " WHERE id = 'tok_run'"},
		"others revoked it":       {database: "UPDATE kimbap.tokens SET revoked = " + later + " WHERE id = 'tok_run'"},
		"others removed one":      {database: "DELETE FROM kimbap.secrets"},
		"others stored one more":  {database: "INSERT INTO kimbap.secrets SELECT tenant, 'other', 1, 1, '[]', '', ciphertext, " + later + ", 0, 0, '[]' FROM kimbap.secrets"},
		"others set one more PIN": {database: "INSERT INTO kimbap.pins SELECT tenant, 'person:b', sealed, " + later + ", 0, 0 FROM kimbap.pins"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			take := func(rows []stored) error {
				from := tables.Rows(func(put func(string, []string, []any) error) error {
					for _, s := range rows {
						if err := put(s.table, s.columns, s.values); err != nil {
							return err
						}
					}
					return nil
				})
				_, err := postgres.Take(t.Context(), postgres.Options{DSN: line.DSN(db)}, from)
				return err
			}
			rows := filed()
			if err := take(rows); err != nil {
				t.Fatal(err)
			}
			if c.database != "" {
				server.Exec(t, db, c.database)
			}
			if c.file != nil {
				rows = c.file(rows)
			}
			err := take(rows)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), "went on in its file since ("+c.refused+")")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// The clock of a home may be far from that of its database: what happened in the file since a
// move that was cut short is found all the same.
func TestAMoveIsNotFinishedOverWhatAClockHides(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	secret := func(name string, at time.Time) stored {
		one := filed()[3]
		one.values[1], one.values[7] = name, at.UnixMicro()
		return one
	}
	for _, ahead := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		for name, c := range map[string]struct {
			since   func(rows []stored, now time.Time) []stored
			refused bool
		}{
			"nothing":  {func(rows []stored, _ time.Time) []stored { return rows }, false},
			"one more": {func(rows []stored, now time.Time) []stored { return append(rows, secret("more", now)) }, true},
			"one less": {func(rows []stored, _ time.Time) []stored { return rows[:len(rows)-1] }, true},
			"a new value": {func(rows []stored, now time.Time) []stored {
				return append(rows[:len(rows)-1:len(rows)-1], secret("new", now))
			}, true},
		} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				t.Parallel()
				clock := func() time.Time { return time.Now().Add(ahead) }
				db := server.Database(t)
				take := func(rows []stored) error {
					_, err := postgres.Take(t.Context(), postgres.Options{DSN: line.DSN(db), Clock: clock}, func(put func(string, []string, []any) error) error {
						for _, s := range rows {
							if err := put(s.table, s.columns, s.values); err != nil {
								return err
							}
						}
						return nil
					})
					return err
				}
				rows := append(filed()[:3:3], secret("new", clock().Add(-time.Minute)))
				if err := take(rows); err != nil {
					t.Fatal(err)
				}
				if err := take(c.since(rows, clock())); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "(secrets)") {
					t.Errorf("%v", err)
				}
			})
		}
	}
}
