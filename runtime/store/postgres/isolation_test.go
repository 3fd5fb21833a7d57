//go:build unix

package postgres_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// A database may give its transactions another isolation than PostgreSQL does. Who waits
// for its turn must see what was done before: with REPEATABLE READ it sees what there was
// when it began to wait, and a person is asked twice.
func TestWhoWaitedForItsTurnSeesWhatWasDone(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			name := server.Database(t)
			server.Exec(t, "postgres", "ALTER DATABASE "+name+" SET default_transaction_isolation = '"+isolation+"'")
			db := opened(t, line.DSN(name), true)
			const askers = 8
			type end struct {
				found bool
				err   error
			}
			ends, begin := make(chan end, askers), make(chan struct{})
			for n := range askers {
				go func() {
					<-begin
					now := time.Unix(1000, 0).UTC()
					_, found, err := db.Ask(t.Context(), approval.Approval{
						ID: "a" + string(rune('0'+n)), Tenant: "default", Principal: "p", Digest: "d", State: approval.Pending, Created: now, Expires: now.Add(time.Hour),
					}, approval.Between{After: now, Until: now}, askers)
					ends <- end{found, err}
				}()
			}
			close(begin)
			added := 0
			for range askers {
				e := <-ends
				if e.err != nil {
					t.Error(e.err)
				}
				if !e.found && e.err == nil {
					added++
				}
			}
			if added != 1 {
				t.Errorf("a person is asked %d times", added)
			}
		})
	}
}
