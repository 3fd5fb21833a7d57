package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Agents are shown the recipes of a service: each of their calls makes a request as it is
// printed, but for the numbers and ids that whoever makes it fills in.
func TestRecipesMakeRequestsAsPrinted(t *testing.T) {
	set, tried := wholeCatalogue(t), 0
	for _, s := range set.Services() {
		for _, recipe := range s.Recipes {
			for _, step := range recipe.Steps {
				words := shellWords(step)
				action, ok := set.Action(words[0])
				if !ok {
					if slices.ContainsFunc(set.Services(), func(s *services.Service) bool { return strings.HasPrefix(words[0], s.Name+".") }) {
						t.Errorf("%s, %q: there is no action %s", s.Name, recipe.Name, words[0])
					}
					continue // another program, or another command of kimbap
				}
				tried++
				if err := makes(set, action, words); err != nil {
					t.Errorf("%s, %q: %s: %v", s.Name, recipe.Name, step, err)
				}
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d calls were made: the test looks in the wrong place", tried)
	}
}

// makes resolves a call as `kimbap call` does, from its words.
func makes(set *services.Set, action *runtime.Action, words []string) error {
	c := &cli{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	args, _, err := c.callWords(newRoot(c), action, words)
	if err != nil {
		return err
	}
	_, err = set.Resolve(&runtime.Request{Action: action.Ref, Args: args})
	return err
}

// wholeCatalogue is the catalogue with values for its variables.
func wholeCatalogue(t *testing.T) *services.Set {
	t.Helper()
	var all []*services.Service
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		check(t, err)
		site := "acme"
		if name == "datadog" {
			site = "datadoghq.com"
		}
		s, err := services.Parse(name+".yaml", bytes.ReplaceAll(data, []byte("{site}"), []byte(site)))
		check(t, err)
		all = append(all, s)
	}
	set, err := services.NewSet(all)
	check(t, err)
	return set
}

// shellWords splits a line as a POSIX shell does one of plain words and quotes. What stands
// for a number or an id is one.
func shellWords(line string) []string {
	var words []string
	for _, word := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		if word == "N" || word == "ID" {
			word = "1"
		}
		words = append(words, regexp.MustCompile(`'([^']*)'|"([^"]*)"`).ReplaceAllString(word, "$1$2"))
	}
	return words
}
