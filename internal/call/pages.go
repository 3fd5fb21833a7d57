package call

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
)

// mostPages bounds a listing that never ends.
const mostPages = 1000

// Paging says how much of a long answer is wanted.
type Paging struct {
	All  bool
	Max  int                           // this many elements; 0: no such limit
	Told func(pages int, elements int) // after each page; may be nil
	Room func() error                  // as of [Answer]; may be nil
	Free int                           // as of [Answer]

	// Refused is what is said where the upstream refuses a page; nil: the error as it is.
	Refused func(err error, answer *Answer) error
}

// Pages does an action and asks for the pages that follow, each a request of its
// own. It returns the pages through the action's filter: lists become one list, other
// JSON a list of the pages, and texts stand one below the other. The error of a page
// ends it, with nothing returned: half a list looks like a whole one.
func (a Actions) Pages(ctx context.Context, p *runtime.Pipeline, req *runtime.Request, action *runtime.Action, o Paging) ([]byte, error) {
	if action.HTTP == nil || action.HTTP.Pages == nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Action: action.Ref, Msg: fmt.Sprintf("kimbap does not know how the answer of %s goes on, if it does: arguments of the action may ask page by page", action.Ref),
			Hint: "leave --all and --max out", Ask: "leave all and max out",
		}
	}
	s, err := a.first(req, action)
	if err != nil {
		return nil, err
	}
	got := gathered{room: o.Room, free: o.Free}
	seen := map[string]bool{}
	for page := 1; ; page++ {
		answer, answered, err := a.send(ctx, p, s, Answer{Room: o.Room, Free: o.Free})
		if err != nil {
			return nil, err
		}
		if err := a.UpstreamError(action, req.Args, answer); err != nil {
			if o.Refused != nil {
				err = o.Refused(err, answer)
			}
			return nil, err
		}
		count, err := got.add(a.Filter(action, answer.Body))
		if err != nil {
			return nil, err
		}
		if o.Told != nil {
			o.Told(page, got.elements)
		}
		if o.Max > 0 && got.elements >= o.Max {
			return got.bytes(o.Max), nil
		}
		next, more, err := a.next(answered, answer, page, count)
		if err != nil {
			return nil, err
		}
		if !more {
			return got.bytes(o.Max), nil
		}
		key := next.url.String() + fmt.Sprint(next.args)
		if seen[key] || page == mostPages {
			return nil, unfollowed(s, "does not come to an end of its pages (%d so far)", page)
		}
		seen[key], s = true, next
	}
}

// elements is how many a list has, 0 for what is none.
func elements(body []byte) int {
	var list []json.RawMessage
	_ = json.Unmarshal(body, &list)
	return len(list)
}

// listed finds the lists that a filter goes through: .result[], or .result | map(…).
var listed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`((?:\.[A-Za-z_][A-Za-z0-9_]*)+)(?:\[\]| *\| *map\b)`)
})

// leaves reports whether a page has elements of which a filter left nothing: it is a list of
// some, or something else in which what the filter goes through is one.
func leaves(filter string, body []byte) bool {
	if elements(body) > 0 {
		return true
	}
	return slices.ContainsFunc(listed().FindAllStringSubmatch(filter, -1), func(m []string) bool {
		some, err := jq.Filter(m[1]+" | arrays | length > 0", body)
		return err == nil && string(some) == "true"
	})
}

// next is the step of the page that follows. Count is how many elements the last
// one had, -1 when it was no list.
func (a Actions) next(s step, answer *Answer, page, count int) (step, bool, error) {
	pages := s.action.HTTP.Pages
	switch pages.Type {
	case "cursor":
		value, err := a.jq("first("+pages.Next+") // empty", answer.Body)
		if err != nil || len(value) == 0 || string(value) == `""` || string(value) == "false" {
			return step{}, false, err
		}
		var cursor any
		dec := json.NewDecoder(bytes.NewReader(value))
		dec.UseNumber()
		if err := dec.Decode(&cursor); err != nil {
			return step{}, false, unfollowed(s, "gives a next page that cannot be read")
		}
		return a.onward(s, cursor)
	case "page":
		if count < 0 {
			return step{}, false, unfollowed(s, "answers with something else than a list, so that the last page cannot be told; its action needs response.filter")
		}
		if count == 0 && !leaves(s.action.HTTP.Filter, answer.Body) {
			return step{}, false, nil
		}
		number := page
		if given := s.args[pages.Param]; given != nil {
			n, err := strconv.Atoi(fmt.Sprint(given))
			if err != nil {
				return step{}, false, unfollowed(s, "has more pages, but the argument %s of %s is not a number to go on from", pages.Param, s.action.Ref)
			}
			number = n
		}
		return a.onward(s, json.Number(strconv.Itoa(number+1)))
	}
	link := nextLink(answer.Header)
	if link == "" {
		return step{}, false, nil
	}
	next, err := a.follow(s, link, "continues on")
	if err != nil {
		return step{}, false, err
	}
	if changed := asArguments(s, next.url); changed != nil {
		if same, err := a.again(s, changed); err == nil {
			return same, true, nil
		}
	}
	return next, true, nil
}

// onward is the step of the page that the pagination's argument leads to with this value,
// which is brought to the type of the argument: some APIs number their cursors. A page that
// cannot be asked for is an error, since the list would end before it as if it were whole.
func (a Actions) onward(s step, value any) (step, bool, error) {
	param := s.action.HTTP.Pages.Param
	ofText := func(p runtime.Param) bool { return p.Name == param && p.Type == runtime.TypeString }
	if n, ok := value.(json.Number); ok && slices.ContainsFunc(s.action.Params, ofText) {
		value = string(n)
	}
	next, err := a.again(s, runtime.Args{param: value})
	if err != nil {
		e := *runtime.AsError(err)
		e.Msg, e.Action, e.RequestID = "the page that follows cannot be asked for: "+e.Msg, s.action.Ref, s.req.ID
		return step{}, false, &e
	}
	return next, true, nil
}

// asArguments returns what a link to the next page changes of the query, when all
// of it are arguments of the action: then the next page is the same action again,
// and not whatever the link's path is. Some APIs write another path there. A link that
// leaves something out is followed as it is: the same action would say it again.
func asArguments(s step, next *url.URL) runtime.Args {
	if s.req.Followed {
		return nil
	}
	was, is, changed := s.url.Query(), next.Query(), runtime.Args{}
	for name := range was {
		if !is.Has(name) {
			return nil
		}
	}
	for name, values := range is {
		if slices.Equal(was[name], values) {
			continue
		}
		i := slices.IndexFunc(s.action.HTTP.Query, func(f runtime.Field) bool { return f.Name == name })
		if i < 0 || len(values) != 1 {
			return nil
		}
		arg, _ := s.action.HTTP.Query[i].Value.Value.(string)
		arg = strings.TrimSuffix(strings.TrimPrefix(arg, "{"), "}")
		known := slices.ContainsFunc(s.action.Params, func(p runtime.Param) bool { return p.Name == arg && p.In == runtime.InQuery })
		if !known {
			return nil
		}
		changed[arg] = values[0]
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
}

// gathered are the pages so far.
type gathered struct {
	list     []byte // the elements of lists, with commas between: what stands for each would be longer than a short one
	listed   int    // how many elements of lists there are
	lines    [][]byte
	elements int
	size     int
	room     func() error // asked when they are larger than free; may be nil
	free     int
}

// add takes a page in. It returns how many elements it has, -1 for no list.
func (g *gathered) add(page []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if g.size += len(page); g.size > maxAnswer {
		return 0, &runtime.Error{
			Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge, Msg: "the pages together are over 64 MiB", Hint: "ask for fewer with --max", Ask: "ask for fewer with max",
		}
	}
	if g.room != nil && g.size > g.free {
		if err := g.room(); err != nil {
			return 0, err
		}
	}
	first := bytes.TrimSpace(page)
	if string(first) == "null" { // a list of none, as some APIs write it
		return 0, nil
	}
	if len(first) > 0 && first[0] == '[' && json.Valid(first) {
		before := g.listed
		g.list, g.listed = appendElements(g.list, first, g.listed, 0)
		g.elements += g.listed - before
		return g.listed - before, nil
	}
	if len(first) > 0 { // else its filter left nothing of it
		g.lines = append(g.lines, first)
		g.elements++
	}
	return -1, nil
}

// bytes writes the pages out, at most so many elements of lists.
func (g *gathered) bytes(most int) []byte {
	out, list, listed := bytes.Join(g.lines, []byte("\n")), g.list, g.listed
	switch {
	case len(g.lines) > 0 && g.listed == 0 && !slices.ContainsFunc(g.lines, func(page []byte) bool { return !json.Valid(page) }):
		list, listed, out = bytes.Join(g.lines, []byte(",")), len(g.lines), nil
	case len(g.lines) > 0 && g.listed == 0:
		return out
	}
	list = append(append([]byte("["), list...), ']')
	if most > 0 && listed > most {
		list, _ = appendElements([]byte("["), list, 0, most)
		list = append(list, ']')
	}
	if len(out) > 0 {
		list = append(append(out, '\n'), list...)
	}
	return list
}

// appendElements appends the elements of a list of JSON to others, of which there are so many;
// as far as there are most then, 0 for all.
func appendElements(to, list []byte, count, most int) ([]byte, int) {
	dec := json.NewDecoder(bytes.NewReader(list))
	_, _ = dec.Token()
	for raw := json.RawMessage(nil); dec.More() && (most == 0 || count < most); count++ {
		if dec.Decode(&raw) != nil { // cannot be: it is valid
			break
		}
		if count > 0 {
			to = append(to, ',')
		}
		to = append(to, raw...)
	}
	return to, count
}
