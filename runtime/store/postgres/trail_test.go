//go:build unix

package postgres_test

import (
	"fmt"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// Lines of a trail are kept in their order, each once however often it is sent, and those of
// two homes apart.
func TestLinesOfATrailAreKeptOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line, name := server.Line(t), server.Database(t)
	db := opened(t, line.DSN(name), true)
	var sent [][]byte
	for i := range 300 {
		sent = append(sent, fmt.Appendf(nil, `{"seq":%d,"path":"é"}`+"\n", i))
	}
	for _, part := range [][][]byte{sent[:100], sent[50:200], sent[:100], sent} {
		if err := db.AddLines(t.Context(), "home_1", "proxy", part); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.AddLines(t.Context(), "home_2", "proxy", sent[:1]); err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), "SELECT line FROM kimbap.trail WHERE home = 'home_1' AND slot = 'proxy' ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		if n < len(sent) && text+"\n" != string(sent[n]) {
			t.Fatalf("line %d is %s", n, text)
		}
		n++
	}
	if n != len(sent) || rows.Err() != nil {
		t.Errorf("%d lines of %d: %v", n, len(sent), rows.Err())
	}
}
