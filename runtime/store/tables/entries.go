package tables

import (
	"context"
	"math"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

const entryColumns = `slot, sequence, kind, time, request_id, tenant, agent, principal, surface, action, effect, rule, host,
	status, code, execution, step, line`

// Index is the search index of a trail. It lies beside the files that it is made from, and so
// on the engine of a home alone.
type Index struct {
	s     *Store
	words Search
}

// Search is what a database says in its own words about what an index is asked for.
type Search struct {
	Contains string // whether the bytes of line hold those of its one parameter
	// Glob is the condition that a column matches a glob, and its one argument.
	Glob func(column string, g runtime.Glob) (condition, pattern string)
}

var _ history.Index = (*Index)(nil)

// NewIndex returns the index on a database.
func NewIndex(engine Engine, words Search) *Index { return &Index{New(engine), words} }

// AddEntries implements [history.Index]. A batch is added whole or not at all.
func (x *Index) AddEntries(ctx context.Context, entries []record.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return x.s.write(ctx, "index the trail", func(t Tx) error {
		for i := range entries {
			if err := t.addEntry(&entries[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t Tx) addEntry(e *record.Entry) error {
	// An intent that comes again keeps what its outcome has told.
	_, err := t.Exec("INSERT INTO entries ("+entryColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (slot, sequence) DO UPDATE SET kind = excluded.kind, time = excluded.time, request_id = excluded.request_id,
		tenant = excluded.tenant, agent = excluded.agent, principal = excluded.principal, surface = excluded.surface,
		action = excluded.action, effect = excluded.effect, rule = excluded.rule, host = excluded.host, line = excluded.line,
		execution = excluded.execution, step = excluded.step,
		status = CASE excluded.kind WHEN 'intent' THEN entries.status ELSE excluded.status END,
		code = CASE excluded.kind WHEN 'intent' THEN entries.code ELSE excluded.code END`,
		e.Slot, int64(e.Sequence), e.Kind, micros(e.Time), e.RequestID, string(e.Tenant), e.Agent, e.Principal, string(e.Surface),
		string(e.Action), e.Effect, e.Rule, e.Host, e.Status, e.Code, e.Execution, e.Step, e.Line)
	if err != nil || e.Kind != "outcome" || e.RequestID == "" {
		return err
	}
	_, err = t.Exec("UPDATE entries SET status = ?, code = ? WHERE request_id = ? AND slot = ? AND tenant = ? AND kind = 'intent'",
		e.Status, e.Code, e.RequestID, e.Slot, string(e.Tenant))
	return err
}

// Position implements [history.Index].
func (x *Index) Position(ctx context.Context, slot string) (uint64, error) {
	var last int64
	_, err := x.s.get(ctx, "find the index's end", "SELECT coalesce(max(sequence), 0) FROM entries WHERE slot = ?", []any{slot}, &last)
	return uint64(last), err
}

// Line implements [history.Index].
func (x *Index) Line(ctx context.Context, slot string, sequence uint64) (line []byte, err error) {
	_, err = x.s.get(ctx, "read the index's end", "SELECT line FROM entries WHERE slot = ? AND sequence = ?", []any{slot, int64(sequence)}, &line)
	return line, err
}

// SearchEntries implements [history.Index].
func (x *Index) SearchEntries(ctx context.Context, q history.Query) ([]record.Entry, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	where, args := x.conditions(q)
	text := "SELECT " + entryColumns + " FROM entries" + where + " ORDER BY time DESC, slot, sequence DESC LIMIT ?"
	return collect(ctx, x.s, "search the trail", text, append(args, q.Limit), scanEntry)
}

// conditions turns the fields that filter into SQL. There are few texts, so
// that their statements can be kept.
func (x *Index) conditions(q history.Query) (string, []any) {
	var parts []string
	var args []any
	add := func(filters bool, sql string, arg any) {
		if filters {
			parts, args = append(parts, sql), append(args, arg)
		}
	}
	add(q.Tenant != "" && !q.Home, "tenant = ?", string(q.Tenant))
	add(q.Tenant != "" && q.Home, "tenant IN (?, '')", string(q.Tenant))
	add(!q.Born.IsZero(), "time >= ?", micros(q.Born))
	add(!q.Born.IsZero(), "NOT (substr(request_id, 1, 4) = 'req_' AND request_id < ?)", q.FirstID())
	add(q.RequestID != "", "request_id = ?", q.RequestID)
	add(q.Execution != "", "execution = ? AND execution <> ''", q.Execution) // as the index of it says
	for _, g := range []struct {
		column string
		glob   runtime.Glob
	}{{"action", q.Action}, {"agent", q.Agent}} {
		condition, pattern := x.words.Glob(g.column, g.glob)
		add(g.glob != "", condition, pattern)
	}
	if q.Host != "" {
		authority, pattern := x.words.Glob("host", q.Host)
		host, atPort := x.words.Glob("host", q.AtPort())
		parts, args = append(parts, "("+authority+" OR "+host+")"), append(args, pattern, atPort)
	}
	add(q.Effect != "", "effect = ?", q.Effect)
	add(q.Code != "", "code = ?", q.Code)
	add(q.Kind != "", "kind = ?", q.Kind)
	add(q.Text != "", x.words.Contains, []byte(q.Text))
	since := int64(math.MinInt64) // which has the table read in the order of time
	if !q.Since.IsZero() {
		since = micros(q.Since)
	}
	add(true, "time >= ?", since)
	add(!q.Until.IsZero(), "time < ?", micros(q.Until))
	return " WHERE " + strings.Join(parts, " AND "), args
}

func scanEntry(row Row) (e record.Entry, err error) {
	return e, row.Scan(&e.Slot, &e.Sequence, &e.Kind, moment{&e.Time}, &e.RequestID, &e.Tenant, &e.Agent, &e.Principal, &e.Surface,
		&e.Action, &e.Effect, &e.Rule, &e.Host, &e.Status, &e.Code, &e.Execution, &e.Step, &e.Line)
}

// DropEntries implements [history.Index].
func (x *Index) DropEntries(ctx context.Context, slot string, upTo uint64) error {
	_, err := x.s.changed(ctx, "drop from the index", "DELETE FROM entries WHERE slot = ? AND sequence <= ?", slot, int64(upTo))
	return err
}

// ResetIndex implements [history.Index].
func (x *Index) ResetIndex(ctx context.Context) error {
	_, err := x.s.changed(ctx, "reset the index", "DELETE FROM entries")
	return err
}
