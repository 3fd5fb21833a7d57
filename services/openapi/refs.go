package openapi

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// value is a part of a document, with the file it stands in: a $ref is relative
// to that.
type value struct {
	in    *file
	v     any
	under *value // whose members count where it has none of the name; nil for none
}

// get returns a member; a zero value when there is none.
func (v value) get(name string) value {
	members, _ := v.v.(map[string]any)
	if _, own := members[name]; !own && v.under != nil {
		return v.under.get(name)
	}
	return value{in: v.in, v: members[name]}
}

func (v value) text(name string) string {
	text, _ := v.get(name).v.(string)
	return text
}

func (v value) is(name string) bool {
	b, _ := v.get(name).v.(bool)
	return b
}

func (v value) members() map[string]any {
	members, _ := v.v.(map[string]any)
	return members
}

func (v value) list(name string) []value {
	list, _ := v.get(name).v.([]any)
	out := make([]value, len(list))
	for i := range list {
		out[i] = value{in: v.in, v: list[i]}
	}
	return out
}

// count is how many a list has.
func (v value) count(name string) int {
	list, _ := v.get(name).v.([]any)
	return len(list)
}

// texts are the strings of a list.
func (v value) texts(name string) []string {
	var out []string
	for _, one := range v.list(name) {
		if text, ok := one.v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// longestChain is how many $ref may follow each other.
const longestChain = 32

// follow returns what a value with $ref stands for, and any other value as it is.
func (l *library) follow(v value) (value, error) {
	return l.along(v, func(value) bool { return false })
}

// along follows to the first value that is enough, or has no $ref.
func (l *library) along(v value, enough func(value) bool) (value, error) {
	for range longestChain {
		ref, ok := v.get("$ref").v.(string)
		if !ok || enough(v) {
			return v, nil
		}
		next, err := l.refer(v.in, ref)
		if err != nil {
			return value{}, err
		}
		v = next
	}
	return value{}, circle(v)
}

// over lays the members of a value over those of what its $ref leads to.
func (l *library) over(v value, chain int) (value, error) {
	ref, ok := v.get("$ref").v.(string)
	if !ok {
		return v, nil
	}
	if chain == longestChain {
		return value{}, circle(v)
	}
	next, err := l.refer(v.in, ref)
	if err == nil {
		next, err = l.over(next, chain+1)
	}
	if err == nil && next.members() == nil {
		err = errNoObject
	}
	v.under = &next
	return v, err
}

func circle(v value) error { return fmt.Errorf("a $ref goes in a circle: %s", shown(v.text("$ref"))) }

// refer finds what a reference names. It leads into the same file, or to a file
// below the document's folder: nothing is fetched, and no path leads out.
func (l *library) refer(from *file, ref string) (value, error) {
	where, pointer, _ := strings.Cut(ref, "#")
	in := from
	if where != "" {
		name, err := beside(from.name, where)
		if err != nil {
			return value{}, err
		}
		if in, err = l.file(name); err != nil {
			return value{}, fmt.Errorf("the file of a $ref cannot be read: %s", shown(where))
		}
	}
	v, ok := point(in.root, pointer)
	if !ok {
		return value{}, fmt.Errorf("a $ref leads to nothing: %s", shown(ref))
	}
	return value{in: in, v: v}, nil
}

// beside is the name of a file that another one refers to.
func beside(from, ref string) (string, error) {
	u, err := url.Parse(ref)
	if err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(ref, "//") {
		return "", fmt.Errorf("a $ref leads to another place, and nothing is fetched: %s", shown(ref))
	}
	name := path.Join(path.Dir(from), u.Path)
	if strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, `\`) || !fs.ValidPath(name) {
		return "", fmt.Errorf("a $ref leads out of the document's folder: %s", shown(ref))
	}
	return name, nil
}

// point follows a JSON pointer in a fragment (RFC 6901 section 6).
func point(root any, pointer string) (any, bool) {
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	if pointer == "" {
		return root, true
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch node := root.(type) {
		case map[string]any:
			next, ok := node[token]
			if !ok {
				return nil, false
			}
			root = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			root = node[i]
		default:
			return nil, false
		}
	}
	return root, true
}

// shown quotes a text of the document for a message: short, and nothing in it
// that a terminal would obey.
func shown(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}
