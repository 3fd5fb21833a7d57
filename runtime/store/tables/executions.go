package tables

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// ofRows is what the rows of an execution count beside what they hold, in bytes.
const ofRows = 4 << 10

// WriteExecution implements [journal.Store].
func (s *Store) WriteExecution(ctx context.Context, e journal.Execution, calls []journal.Call) (written bool, err error) {
	err = s.write(ctx, "keep an execution", func(t Tx) error {
		written = false // an engine may run this again
		if err := t.Turn("execution " + e.ID); err != nil {
			return err
		}
		more, err := t.longer(e.ID, calls)
		if err != nil {
			return err
		}
		n, err := t.Exec(`INSERT INTO executions (id, tenant, principal, state, holder, script, result, created, expires, bytes)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
			ON CONFLICT (id) DO UPDATE SET state = excluded.state, result = excluded.result, expires = excluded.expires,
			bytes = executions.bytes + ?11 + coalesce(length(excluded.result), 0) - coalesce(length(executions.result), 0)
			WHERE executions.tenant = excluded.tenant AND executions.holder = excluded.holder AND executions.state <> 'ended'`,
			e.ID, string(e.Tenant), e.Principal, string(e.State), e.Holder, e.Script, blob(e.Result), micros(e.Created), micros(e.Expires),
			more+ofRows+len(e.Script)+len(e.Result), more)
		if err != nil || n == 0 {
			return err
		}
		written = true
		return t.putCalls(e.ID, calls)
	})
	return written && err == nil, err
}

// manyCalls is how many calls of a script one statement takes. There may be thousands, as of
// one that sets timers, and all others wait for the transaction.
const manyCalls = 200

// together are calls as statements take them: as many as may be, and the rest one by one. So
// there are two statements, which an engine keeps prepared.
func together(calls []journal.Call) [][]journal.Call {
	var out [][]journal.Call
	for len(calls) > 0 {
		n := 1
		if len(calls) >= manyCalls {
			n = manyCalls
		}
		out, calls = append(out, calls[:n]), calls[n:]
	}
	return out
}

// putCalls adds calls, or replaces them.
func (t Tx) putCalls(id string, calls []journal.Call) error {
	for _, some := range together(calls) {
		args := make([]any, 0, 4*len(some))
		for _, call := range some {
			args = append(args, id, call.Step, call.Settled, call.Sealed)
		}
		_, err := t.Exec("INSERT INTO execution_calls (execution, step, settled, sealed) VALUES "+repeated("(?, ?, ?, ?)", len(some))+
			" ON CONFLICT (execution, step) DO UPDATE SET settled = excluded.settled, sealed = excluded.sealed", args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// repeated is a part of a statement, so many times.
func repeated(part string, n int) string {
	return strings.TrimSuffix(strings.Repeat(part+", ", n), ", ")
}

// longer is how many bytes these calls are longer than what is kept of them.
func (t Tx) longer(id string, calls []journal.Call) (more int, err error) {
	for _, some := range together(calls) {
		args, old := []any{id}, 0
		for _, call := range some {
			args = append(args, call.Step)
			more += len(call.Sealed)
		}
		_, err := t.get("SELECT CAST(coalesce(sum(length(sealed)), 0) AS BIGINT) FROM execution_calls WHERE execution = ? AND step IN ("+
			repeated("?", len(some))+")", args, &old)
		if err != nil {
			return 0, err
		}
		more -= old
	}
	return more, nil
}

// Execution implements [journal.Store].
func (s *Store) Execution(ctx context.Context, tenant runtime.Tenant, id string) (e journal.Execution, found bool, err error) {
	found, err = s.get(ctx, "read an execution", `SELECT id, tenant, principal, state, holder, script, result, created, expires
		FROM executions WHERE tenant = ? AND id = ?`, []any{string(tenant), id},
		&e.ID, &e.Tenant, &e.Principal, &e.State, &e.Holder, &e.Script, &e.Result, moment{&e.Created}, moment{&e.Expires})
	return e, found, err
}

// ExecutionCalls implements [journal.Store].
func (s *Store) ExecutionCalls(ctx context.Context, tenant runtime.Tenant, id string) ([]journal.Call, error) {
	return collect(ctx, s, "read an execution's calls", `SELECT step, settled, sealed FROM execution_calls
		WHERE execution = (SELECT id FROM executions WHERE tenant = ? AND id = ?) ORDER BY step`,
		[]any{string(tenant), id}, func(row Row) (c journal.Call, err error) {
			return c, row.Scan(&c.Step, &c.Settled, &c.Sealed)
		})
}

// ClaimExecution implements [journal.Store].
func (s *Store) ClaimExecution(ctx context.Context, tenant runtime.Tenant, id string, state journal.State, from, to string) (bool, error) {
	return s.changed(ctx, "claim an execution", `UPDATE executions SET state = 'running', holder = ?
		WHERE tenant = ? AND id = ? AND state = ? AND holder = ?`, to, string(tenant), id, string(state), from)
}

// DropExecutions implements [journal.Store].
func (s *Store) DropExecutions(ctx context.Context, now time.Time) error {
	for more := true; more; {
		n, _, err := s.forgetOldest(ctx, math.MaxInt64, "expires < ?", micros(now))
		if err != nil {
			return err
		}
		more = n > 0
	}
	return nil
}

// ExecutionBytes implements [journal.Store].
func (s *Store) ExecutionBytes(ctx context.Context, tenant runtime.Tenant, principal string) (own, all int64, err error) {
	_, err = s.get(ctx, "look for room", `SELECT CAST(coalesce(sum(bytes) FILTER (WHERE tenant = ? AND principal = ?), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT)
		FROM execution_shares`, []any{string(tenant), principal}, &own, &all)
	return own, all, err
}

// MostExecutions implements [journal.Store].
func (s *Store) MostExecutions(ctx context.Context) (tenant runtime.Tenant, principal string, err error) {
	_, err = s.get(ctx, "look for room", `SELECT tenant, principal FROM execution_shares AS s
		WHERE EXISTS (SELECT 1 FROM executions AS e WHERE e.tenant = s.tenant AND e.principal = s.principal AND e.state = 'ended')
		ORDER BY bytes DESC, tenant, principal LIMIT 1`, nil, &tenant, &principal)
	return tenant, principal, err
}

// Bounds of one transaction that forgets executions: others wait for it.
const (
	forgetRows  = 200
	forgetBytes = 8 << 20
	forgetCalls = 4 // of an execution that has more
)

// ForgetEnded implements [journal.Store].
func (s *Store) ForgetEnded(ctx context.Context, tenant runtime.Tenant, principal string, bytes int64) (freed int64, err error) {
	_, freed, err = s.forgetOldest(ctx, bytes, "tenant = ? AND principal = ? AND state = 'ended'", string(tenant), principal)
	return freed, err
}

// forgetOldest removes executions of which something is true, the oldest first, until so
// many bytes are free, or some of that. It returns how many executions these were.
func (s *Store) forgetOldest(ctx context.Context, bytes int64, is string, args ...any) (n int, freed int64, err error) {
	type row struct {
		id    string
		bytes int64
	}
	oldest, err := collect(ctx, s, "look for room", "SELECT id, bytes FROM executions WHERE "+is+" ORDER BY expires, id LIMIT ?",
		append(slices.Clone(args), forgetRows), func(r Row) (one row, err error) {
			return one, r.Scan(&one.id, &one.bytes)
		})
	var ids []string
	for _, one := range oldest {
		if freed >= bytes || len(ids) > 0 && freed+one.bytes > forgetBytes {
			break
		}
		ids, freed = append(ids, one.id), freed+one.bytes
	}
	if err != nil || len(ids) == 0 {
		return 0, 0, err
	}
	if freed > forgetBytes { // one alone
		// It has ended from here on: nobody goes on with a part of it.
		still, err := s.changed(ctx, "forget executions", "UPDATE executions SET state = 'ended' WHERE "+is+" AND id = ?", append(slices.Clone(args), ids[0])...)
		if err == nil && still {
			err = s.forgetCalls(ctx, ids[0])
		}
		if err != nil {
			return 0, 0, err
		}
	}
	names, err := json.Marshal(ids)
	if err != nil {
		return 0, 0, err
	}
	_, err = s.changed(ctx, "forget executions", "DELETE FROM executions WHERE "+is+" AND id IN ("+s.engine.Dialect().Members+")", append(slices.Clone(args), string(names))...)
	return len(ids), freed, err
}

// forgetCalls removes the calls of an execution that has ended, a few at a time.
func (s *Store) forgetCalls(ctx context.Context, id string) error {
	for more := true; more; {
		err := s.write(ctx, "forget an execution's calls", func(t Tx) error {
			n, err := t.Exec(`DELETE FROM execution_calls WHERE execution = ?1
				AND step IN (SELECT step FROM execution_calls WHERE execution = ?1 LIMIT ?2)`, id, forgetCalls)
			more = n == forgetCalls
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
