package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Item is one tool that a search found.
type Item struct {
	Path        string       `json:"path"` // as a script writes it, without "tools."
	Name        string       `json:"name"` // service.action
	Description string       `json:"description"`
	Service     string       `json:"service"`
	Risk        runtime.Risk `json:"risk"`
	Approval    bool         `json:"approval"` // a person is asked, as far as it can be known without arguments
	Idempotent  bool         `json:"idempotent"`
	Score       int          `json:"score"`
}

// Found is what a search answers.
type Found struct {
	Items      []Item `json:"items"`
	Total      int    `json:"total"`
	HasMore    bool   `json:"hasMore"`
	Partial    bool   `json:"partial,omitempty"` // none has all the words; these have some
	NextOffset int    `json:"nextOffset,omitempty"`
}

// Search is what is searched for.
type Search struct {
	Query  string `json:"query"`
	Limit  int    `json:"limit"`  // 0: 10; at most 100
	Offset int    `json:"offset"` // how many of the best to leave out
}

// scores: what a word of the query is worth where it stands.
const (
	scoreExact = 8 // it is a word of the action's name
	scoreName  = 4 // it begins one
	scoreOwner = 3 // it is the service's name
	scoreText  = 1 // it stands in a description
)

// maxQuery is the length of the longest query of a search, in bytes. Each word is compared
// with those of every action, in the process that serves all callers: no limit of a script
// counts that, and nothing ends it.
const maxQuery = 1000

// maxWords is how many different words of a query count, for the same reason.
const maxWords = 32

// SearchActions finds actions by words, the best first. Asks says whether a
// person is asked before an action; nil: not known. The error, of a query that is too
// long, is a [runtime.Error].
func SearchActions(actions []*runtime.Action, descriptions map[string]string, q Search, asks func(*runtime.Action) bool) (Found, error) {
	if len(q.Query) > maxQuery {
		return Found{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("the query of a search has at most %d bytes, and this one has %d", maxQuery, len(q.Query)),
			Hint: "search for a few words, such as: list pull requests",
		}
	}
	return ranked(actions, descriptions, q, asks), nil
}

// ranked is SearchActions of a query that is short.
func ranked(actions []*runtime.Action, descriptions map[string]string, q Search, asks func(*runtime.Action) bool) Found {
	if q.Limit <= 0 {
		q.Limit = 10
	}
	q.Limit, q.Offset = min(q.Limit, 100), max(q.Offset, 0)
	words := distinct(wordsOf(q.Query))
	items, partial := []Item{}, true
	for _, a := range actions {
		score, all := scoreOf(a, descriptions[a.Service], words)
		if score == 0 && len(words) > 0 || !all && !partial {
			continue
		}
		if all && partial {
			items, partial = items[:0], false
		}
		items = append(items, Item{
			Path: toolPath(a), Name: string(a.Ref), Description: a.Description, Service: a.Service, Risk: a.Risk,
			Approval: asks != nil && asks(a), Idempotent: a.Idempotent, Score: score,
		})
	}
	slices.SortFunc(items, func(a, b Item) int { // of two that are as good, what has fewer words that nobody asked for
		return cmp.Or(b.Score-a.Score, strings.Count(a.Name, "-")-strings.Count(b.Name, "-"), strings.Compare(a.Name, b.Name))
	})
	found := Found{Items: []Item{}, Total: len(items), Partial: partial && len(items) > 0}
	if q.Offset < len(items) {
		end := min(q.Offset+q.Limit, len(items))
		found.Items = items[q.Offset:end]
		if found.HasMore = end < len(items); found.HasMore {
			found.NextOffset = end
		}
	}
	return found
}

// distinct are the first of some words, each once.
func distinct(words []string) []string {
	var out []string
	for _, word := range words {
		if len(out) < maxWords && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// shortWord is the length of words that begin too many others to say anything: a, my, to.
const shortWord = 2

// scoreOf rates an action, and says whether every word of the query stands somewhere.
// Where only some do, it is rated by the longer ones; not one of those in a name is chance,
// and 0.
func scoreOf(a *runtime.Action, service string, words []string) (score int, all bool) {
	names, texts := wordsOf(a.Name), wordsOf(a.Description+" "+service)
	some, named := 0, false
	all = true
	for _, word := range words {
		worth := 0
		for _, name := range names {
			switch {
			case alike(name, word):
				worth = max(worth, scoreExact)
			case strings.HasPrefix(name, word):
				worth = max(worth, scoreName)
			}
		}
		if alike(a.Service, word) {
			worth = max(worth, scoreOwner)
		}
		if slices.ContainsFunc(texts, func(t string) bool { return strings.HasPrefix(t, word) || alike(t, word) }) {
			worth++
		}
		all = all && worth > 0
		score += worth
		if len(word) > shortWord {
			some += worth
			named = named || worth >= scoreOwner
		}
	}
	switch {
	case all:
		return score, true
	case named:
		return some, false
	}
	return 0, false
}

// alike takes one for many: issue and issues.
func alike(a, b string) bool {
	return a == b || strings.TrimSuffix(a, "s") == strings.TrimSuffix(b, "s")
}

// wordsOf are the words of a text, in small letters; camel case is several.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(kebab(text), "-"), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127)
	})
}

// search answers tools.search.
func (t *tools) search(args string, asks func(*runtime.Action) bool) (string, *runtime.Error) {
	q := Search{}
	var text string
	if json.Unmarshal([]byte(args), &text) == nil {
		q.Query = text // tools.search("…") is understood too
	} else if args != "" && json.Unmarshal([]byte(args), &q) != nil {
		return "", badArgs("search", `write tools.search({query: "list pull requests", limit: 10})`)
	}
	descriptions := map[string]string{}
	for _, s := range t.catalog.Services {
		descriptions[s.Name] = s.Description
	}
	found, err := SearchActions(t.available(), descriptions, q, asks)
	if err != nil {
		return "", runtime.AsError(err)
	}
	return encode(found)
}

// Definition is what tools.describe.tool answers for a tool there is.
type Definition struct {
	Path                  string `json:"path"`
	Name                  string `json:"name"`
	Description           string `json:"description"`
	InputTypeScript       string `json:"inputTypeScript"`
	OutputTypeScript      string `json:"outputTypeScript"`
	TypeScriptDefinitions string `json:"typeScriptDefinitions"`
}

type notFound struct {
	Error notFoundError `json:"error"`
}

type notFoundError struct {
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	Suggestions []string `json:"suggestions"`
}

// describe answers tools.describe.tool. A tool outside of what the execution may
// use is not found.
func (t *tools) describe(args string, asks func(*runtime.Action) bool) (string, *runtime.Error) {
	var asked struct {
		Path string `json:"path"`
	}
	if json.Unmarshal([]byte(args), &asked.Path) != nil && json.Unmarshal([]byte(args), &asked) != nil || asked.Path == "" {
		return "", badArgs("describe.tool", `write tools.describe.tool({path: "github.listPullRequests"})`)
	}
	path := strings.TrimPrefix(asked.Path, "tools.")
	if len(path) > maxPath {
		return "", badArgs("describe.tool", fmt.Sprintf("the path of a tool has at most %d bytes", maxPath))
	}
	action, err := t.find(path)
	if err == nil && t.may(action.Ref) {
		return encode(Describe(action, asks != nil && asks(action)))
	}
	if err == nil {
		err = t.unknown(path)
	}
	suggestions := []string{}
	for _, near := range t.near(path) {
		suggestions = append(suggestions, strings.TrimPrefix(near, "tools."))
	}
	found := ranked(t.available(), nil, Search{Query: strings.Join(wordsOf(path), " "), Limit: 3}, nil)
	for _, item := range found.Items {
		if !slices.Contains(suggestions, item.Path) {
			suggestions = append(suggestions, item.Path)
		}
	}
	return encode(notFound{notFoundError{Code: "tool_not_found", Message: err.Msg, Suggestions: suggestions}})
}

func badArgs(tool, fix string) *runtime.Error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the arguments of tools." + tool + " are not understood", Hint: fix}
}

func encode(value any) (string, *runtime.Error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", runtime.AsError(err)
	}
	return string(data), nil
}
