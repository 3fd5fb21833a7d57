package condition

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// names are the members that an expression names of a value that a caller writes,
// with those that it names below each. A list has those of its elements.
type names struct {
	members  map[string]*names
	spelled  map[string]bool // the same members, in one spelling
	longest  int             // bytes of one of these
	computed bool            // some members are named by what is computed
	compared bool            // the value is compared with one that is no list
	operands                 // those that it is compared with, where they stand in the expression
}

func (n *names) member(name string) *names {
	if n.members == nil {
		n.members, n.spelled = map[string]*names{}, map[string]bool{}
	}
	below := n.members[name]
	if below == nil {
		below = &names{}
		n.members[name] = below
		key := spelling(strings.TrimSuffix(name, "[]"))
		n.spelled[key], n.spelled[spelling(name)] = true, true
		n.longest = max(n.longest, len(spelling(name)))
	}
	return below
}

// spelling is the same for all names that some server takes for one: those that
// differ in case, and in a form for PHP in blanks, dots and underscores.
func spelling(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == ' ' {
			return '_'
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, strings.TrimSpace(name))
}

// twin reports whether a value has a member that is, in another spelling, one that
// the expression names: encoding/json of Go reads Amount as amount.
func (n *names) twin(value any) bool {
	if n.members == nil && !n.computed {
		return false
	}
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if n.twin(element) {
				return true
			}
		}
	case map[string]any:
		for name, inner := range value {
			below, named := n.members[name]
			if named && below.twin(inner) || !named && n.alike(name) || n.computed && n.twin(inner) {
				return true
			}
		}
	}
	return false
}

// key reports whether the query of a target has a key that is, in another spelling, one
// that the expression names: Rails reads "[sudo]" as sudo. With same, so is one in the same.
func (n *names) key(target string, same bool) bool {
	_, raw, asked := strings.Cut(target, "?")
	if !asked || n.members == nil {
		return false
	}
	keys, _ := url.ParseQuery(raw) // what it cannot read is refused when the condition looks
	for name := range keys {
		if _, named := n.members[name]; named && same || !named && n.alike(name) {
			return true
		}
	}
	return false
}

// values says what in the values of the query's keys that the expression names is unclear.
// That there are several is none of it: they are a list to the expression too.
func (n *names) values(target string) string {
	_, raw, asked := strings.Cut(target, "?")
	if !asked || n.members == nil {
		return ""
	}
	keys, _ := url.ParseQuery(raw) // what it cannot read is refused when the condition looks
	for name, below := range n.members {
		for _, value := range keys[name] {
			if why := below.unclear(value); why != "" {
				return why
			}
		}
	}
	return ""
}

// merges reports whether servers put the parameters of the query and the fields of the body
// of such a request together (Rack, PHP, Laravel, servlets).
func merges(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// alike reports whether a name, or what stands in it before a bracket or NUL, where
// readers of forms end, is another spelling of one that is named.
func (n *names) alike(name string) bool {
	if bare := strings.TrimLeftFunc(name, classifier.PassedOver); len(bare) < len(name) && n.alike(bare) {
		return true
	}
	for i := range len(name) {
		if name[i] != '[' && name[i] != ']' && name[i] != 0 {
			continue
		}
		before := strings.TrimSpace(name[:i])
		if len(before) > 4*n.longest { // a letter has four bytes at most
			break
		}
		if n.spelled[spelling(before)] {
			return true
		}
	}
	key := spelling(name)
	return n.spelled[key] || n.spelled[strings.ReplaceAll(key, "[", "_")] // to PHP one that is not closed
}

// What keeps a value from being compared as servers read it.
const (
	spelled = " has a member in another spelling than the rule, which servers may read as the same"
	many    = " has a list where the rule compares one value, and servers may read any of it"
	listed  = " is a list in a field of the head, and servers may read the one that the rule compares"
	padded  = " has blanks around a value that the rule compares, and servers may read it without them"
	nested  = " has a list or an object in which stands what the rule compares with one value, and servers may read it as that"
	retyped = " has a value of another type than the one that the rule compares, and servers may read it as that"
)

// unclear says what in a value is compared, and may be another one to a server: a list where
// one value is (role=user&role=admin is one of the two to most), a text that is the
// expression's but for blanks around it, or what is it in another type. Empty: nothing.
func (n *names) unclear(value any) string {
	switch value := value.(type) {
	case string, json.Number, bool:
		if text, isText := value.(string); isText && !n.has(text) && n.has(classifier.Trimmed(text)) {
			return padded
		}
		if n.mistaken(value) {
			return retyped
		}
	case []any:
		if n.compared {
			return many
		}
		for _, element := range value {
			if why := n.unclearElement(element); why != "" {
				return why
			}
		}
	case map[string]any:
		for name := range value {
			if !n.computed {
				break
			}
			if why := n.unclearElement(value[name]); why != "" {
				return why
			}
		}
		for name, below := range n.members {
			if why := below.unclear(value[name]); why != "" {
				return why
			}
			if below.inside(value[name]) {
				return retyped
			}
		}
	}
	return ""
}

// unclearElement says what is unclear in one of the values that are compared one by one: of a list,
// or of an object whose members are named by what is computed.
func (n *names) unclearElement(value any) string {
	if why := n.unclear(value); why != "" {
		return why
	}
	if !isScalar(value) && n.holds(value) {
		return nested
	}
	return ""
}

// twin says what in the question cannot be told apart from another spelling of what the
// condition names, or of what it compares, or stands elsewhere; empty: nothing.
func (c *Condition) twin(q *runtime.Question) string {
	if raw := q.Request.Raw != nil; raw {
		if c.uses.inBody.twin(q.Request.Document) {
			return "request.body" + spelled
		}
		if why := c.uses.inBody.unclear(q.Request.Document); why != "" {
			return "request.body" + why
		}
		switch {
		case merges(q.Request.Target.Method) && c.uses.inBody.key(q.Request.Target.Path, true):
			return "request.query has what the rule looks for in the body, where servers may read it as well"
		case c.uses.inQuery.key(q.Request.Target.Path, false):
			return "request.query" + spelled
		}
		if why := c.uses.inQuery.values(q.Request.Target.Path); why != "" {
			return "request.query" + why
		}
		if name := c.uses.inHeaders.split(q.Request.Raw.Header); name != "" {
			return fmt.Sprintf("request.headers has %q on several lines or as a list, and servers may read the one that the rule compares", name)
		}
	}
	if c.uses.inArgs.members == nil && !c.uses.inArgs.computed {
		return ""
	}
	for name, value := range q.Args {
		below := c.uses.inArgs.members[name]
		if below != nil && below.twin(value) || c.uses.inArgs.computed && c.uses.inArgs.twin(value) {
			return "args." + name + spelled
		}
		if below == nil {
			continue
		}
		if text, isText := value.(string); isText && inHead(q.Action, name) && below.passedOver(text) {
			return "args." + name + listed
		}
		why := below.unclear(value)
		if why == retyped && isScalar(value) {
			continue // where it is looked at, it has to be of the declared type
		}
		if why != "" {
			return "args." + name + why
		}
	}
	return ""
}
