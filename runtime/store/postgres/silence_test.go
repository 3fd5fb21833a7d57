package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// A caller who has less time than the server may take says nothing of the server: others
// ask it all the same.
func TestACallerInAHurryDoesNotSilenceTheServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // whose connections nobody takes
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	db, err := connect(t.Context(), Options{DSN: "postgres://u@" + ln.Addr().String() + "/k?sslmode=disable"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.born = time.Now().Add(-time.Hour) // when it was heard last
	hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	none := func(tables.Row) error { return nil }
	if err := db.query(hurried, "look", "SELECT 1", nil, none); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	if db.lasts() {
		t.Error("nobody asks the server any more")
	}
	if err := db.ask(t.Context(), glance, "look", "SELECT 1", nil, none); err == nil || !db.lasts() {
		t.Errorf("a server that is silent is asked again: %v", err)
	}
}
