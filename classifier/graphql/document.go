// Package graphql reads executable documents of GraphQL: which operations they hold, of
// which type, with which root fields, and which fields at any depth.
//
// Sections are those of the specification's edition of October 2021; a description
// before a definition, which newer ones have, is passed over.
//
// It refuses what a server could read in another way: a string, a comment or a
// character by which a bracket could be hidden from one of the two, two operations or two
// fragments of one name, definitions of types. So it does with more than 200 selection
// sets or other brackets in one another, and with more than 1,000 root fields. It knows no
// schema and does not validate, executes nothing, and does not judge which operation is
// worse than another.
//
// Start reading at [Parse].
package graphql

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

// selectionSet is what stands in a selection set (section 2.4), that of its inline
// fragments with it.
type selectionSet struct {
	root selections // in the set itself
	all  selections // there and in the sets below
}

type selections struct {
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
	names, ok = d.gather(operations, func(s *selectionSet) *selections { return &s.root })
	return names, ok && len(names) <= MostRootFields
}

// AllFields is [Document.RootFields] for the fields at any depth, however many they are:
// with those that stand below a field, and those of the fragments that are spread there.
func (d *Document) AllFields(operations []Operation) (names []string, ok bool) {
	return d.gather(operations, func(s *selectionSet) *selections { return &s.all })
}

// gather collects fields through fragments, each fragment once. Ok is false where one is
// missing.
func (d *Document) gather(operations []Operation, part func(*selectionSet) *selections) (fields []string, ok bool) {
	seen := map[string]bool{}
	for i := range operations {
		here := part(&operations[i].set)
		fields = joined(fields, here.fields)
		open := joined(nil, here.spreads)
		for next := 0; next < len(open); next++ {
			name := open[next]
			if seen[name] {
				continue
			}
			fragment, there := d.fragments[name]
			if !there {
				return nil, false
			}
			seen[name] = true
			inner := part(&fragment)
			fields, open = joined(fields, inner.fields), joined(open, inner.spreads)
		}
	}
	return fields, true
}

// joined copies nothing where one of the two is empty, as in most documents, and changes
// neither.
func joined(a, b []string) []string {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b[:len(b):len(b)]
	}
	return append(a, b...)
}
