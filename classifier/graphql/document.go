// Package graphql reads executable documents of GraphQL: which operations they hold, of
// which type, and with which root fields.
//
// Sections are those of the specification's edition of October 2021; a description
// before a definition, which newer ones have, is passed over.
//
// It refuses what a server could read in another way: a string, a comment or a
// character by which a bracket could be hidden from one of the two, two operations or two
// fragments of one name, definitions of types. So it does with more than 200 brackets in
// one another, and with more than 1,000 root fields. It knows no schema and does not
// validate, executes nothing, and does not judge which operation is worse than another.
//
// Start reading at [Parse].
package graphql

import "slices"

// OperationType is the type of an operation (section 2.3), the one that may do most last.
type OperationType uint8

// The zero type is none of them.
const (
	UnknownType OperationType = iota
	Query
	Subscription
	Mutation
)

// TypeOf returns the type that a keyword names, UnknownType for any other word.
func TypeOf(word string) OperationType {
	switch word {
	case "query":
		return Query
	case "subscription":
		return Subscription
	case "mutation":
		return Mutation
	}
	return UnknownType
}

// Document is an executable document (section 2.2) as [Parse] returns it. It is not
// changed after that.
type Document struct {
	operations []Operation // at least one
	fragments  map[string]selectionSet
}

// Operation is one executable operation of a document.
type Operation struct {
	Type OperationType
	Name string // "" for the only one of its document
	set  selectionSet
}

// selectionSet is what stands in a selection set itself (section 2.4), that of its inline
// fragments with it: the sets below are not looked at.
type selectionSet struct {
	fields  []string // by their own names, whatever alias and directives they have
	spreads []string // names of fragments
}

// GetOperation returns the operation that a request with this operationName executes
// (section 6.1), alone; none where the document has none of the name. Without a name it
// returns all that there are: of several a server shall execute none, but might any.
// The caller must not change them.
func (d *Document) GetOperation(name string) []Operation {
	if name == "" {
		return d.operations
	}
	for i := range d.operations {
		if d.operations[i].Name == name {
			return d.operations[i : i+1]
		}
	}
	return nil
}

// MostRootFields is how many fields operations may begin with and still be
// read: more is not what a person writes, and each is held against each pattern.
const MostRootFields = 1000

// RootFields returns the names of the fields that these operations of the document begin
// with, as CollectFields does (section 6.3.2) and as often as they stand there: through
// fragments, whatever their types, and whatever @skip and @include say, since a field
// that may be left out counts as one that is there. Ok is false where a fragment is
// missing, or there are more than [MostRootFields]. The caller must not change them.
func (d *Document) RootFields(operations []Operation) (names []string, ok bool) {
	w := gathering{fragments: d.fragments}
	for i := range operations {
		if !w.gather(operations[i].set) {
			return nil, false
		}
	}
	return w.fields, true
}

// gathering collects root fields through fragments, each fragment once.
type gathering struct {
	fragments map[string]selectionSet
	seen      map[string]bool
	fields    []string
}

// gather reports whether all fragments are there, and it was not too much.
func (w *gathering) gather(set selectionSet) bool {
	if w.fields == nil && len(set.spreads) == 0 {
		w.fields = set.fields // of most documents nothing has to be copied
		return len(w.fields) <= MostRootFields
	}
	w.fields = append(w.fields[:len(w.fields):len(w.fields)], set.fields...)
	open := slices.Clone(set.spreads)
	for i := 0; i < len(open); i++ {
		name := open[i]
		if w.seen[name] {
			continue
		}
		fragment, ok := w.fragments[name]
		if !ok {
			return false
		}
		if w.seen == nil {
			w.seen = map[string]bool{}
		}
		w.seen[name] = true
		w.fields = append(w.fields, fragment.fields...)
		open = append(open, fragment.spreads...)
	}
	return len(w.fields) <= MostRootFields
}
