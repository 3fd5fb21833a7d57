// Package database gives the lines of the audit ledger to the database that homes share, so
// that a team has all of their trails in one place.
//
// It knows no database: who has one takes lines by a small interface. It keeps nothing and
// tries nothing again; a line may be given twice.
//
// Start reading at [Sink].
package database

import (
	"context"
	"errors"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// Keeper is a database that keeps lines of a home's slot, all of a call or none, and has
// them on its disk when it returns. One that it has already stays as it is.
type Keeper interface {
	AddLines(ctx context.Context, home, slot string, lines [][]byte) error
}

// Options are what a [Sink] is made of. Keeper, Name and Home are required.
type Options struct {
	Keeper   Keeper
	Name     string // of the database, without a secret in it
	Home     string // whose trail it is
	Required bool   // requests wait for it
}

// Sink gives lines to a database. It is safe for concurrent use.
type Sink struct{ o Options }

var _ outlet.Sink = (*Sink)(nil)

// New checks the options; it does no IO.
func New(o Options) (*Sink, error) {
	if o.Keeper == nil || o.Name == "" || o.Home == "" {
		return nil, errors.New("audit sink: database.Options.Keeper, Name and Home are required")
	}
	return &Sink{o}, nil
}

// Name implements [outlet.Sink].
func (s *Sink) Name() string { return NameIn(s.o.Name) }

// NameIn is the name of the sink in the database of that name.
func NameIn(database string) string { return "store:" + database }

// Required implements [outlet.Sink].
func (s *Sink) Required() bool { return s.o.Required }

// Write implements [outlet.Sink].
func (s *Sink) Write(ctx context.Context, slot string, lines [][]byte) error {
	return s.o.Keeper.AddLines(ctx, s.o.Home, slot, lines)
}

// Close implements [outlet.Sink]. The database is closed by who opened it.
func (s *Sink) Close() error { return nil }
