package jq

import (
	"strings"

	"github.com/itchyny/gojq"
)

// Plain reports whether an expression only takes out and puts together: paths, lists and
// objects of them, one after the other, and what leads through a list. None of its steps goes
// through a value that it made, so none can last or nest: [Filter] stops it at its bounds,
// in whatever process it runs. What cannot be read is plain, for it never runs.
func Plain(expression string) bool {
	if len(expression) > filterText {
		return true
	}
	query, err := gojq.Parse(expression)
	return err != nil || plain(query)
}

func plain(q *gojq.Query) bool {
	switch {
	case q == nil:
		return true
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return false
	case q.Term != nil:
		return plainTerm(q.Term)
	}
	switch q.Op {
	case gojq.OpPipe, gojq.OpComma, gojq.OpAlt:
		return plain(q.Left) && plain(q.Right)
	}
	return false
}

func plainTerm(t *gojq.Term) bool {
	for _, s := range t.SuffixList {
		if s.Index != nil && !plainIndex(s.Index) {
			return false
		}
	}
	switch t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return true
	case gojq.TermTypeIndex:
		return plainIndex(t.Index)
	case gojq.TermTypeString:
		return plainString(t.Str)
	case gojq.TermTypeArray:
		return plain(t.Array.Query)
	case gojq.TermTypeObject:
		return plainObject(t.Object)
	case gojq.TermTypeQuery:
		return plain(t.Query)
	case gojq.TermTypeFunc:
		return plainFunc(t.Func)
	}
	return false
}

// plainFunc knows those that jq itself writes with what is plain.
func plainFunc(f *gojq.Func) bool {
	switch f.Name {
	case "map", "first":
		return len(f.Args) == 0 || plain(f.Args[0])
	case "empty":
		return true
	}
	return false
}

// plainIndex takes names and whole numbers.
func plainIndex(i *gojq.Index) bool {
	return plainString(i.Str) && plainPlace(i.Start) && plainPlace(i.End)
}

// plainPlace takes those that are written out.
func plainPlace(q *gojq.Query) bool {
	if q == nil {
		return true
	}
	t := q.Term
	if t != nil && t.Type == gojq.TermTypeUnary {
		t = t.Unary.Term
	}
	if t == nil || len(t.SuffixList) > 0 {
		return false
	}
	return t.Type == gojq.TermTypeNumber && len(t.Number) < 10 || t.Type == gojq.TermTypeString && plainString(t.Str)
}

func plainString(s *gojq.String) bool { return s == nil || len(s.Queries) == 0 }

func plainObject(o *gojq.Object) bool {
	for _, kv := range o.KeyVals {
		if kv.KeyQuery != nil || strings.HasPrefix(kv.Key, "$") || !plainString(kv.KeyString) || !plain(kv.Val) {
			return false
		}
	}
	return true
}
