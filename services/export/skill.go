package export

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Skill is a SKILL.md that teaches an agent the service: when to use it, how to
// call it, what it can do, the known traps and the tasks of several steps. Its
// front matter has the two fields that agents look at, on one line each.
func Skill(s *services.Service) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %s\n---\n\n# %s\n\n", s.Name, quoted(oneLine(purpose(s))), s.Name)
	if s.Description != "" {
		fmt.Fprintf(&b, "%s. ", strings.TrimSuffix(oneLine(s.Description), "."))
	}
	b.WriteString("The key is kimbap's: never ask for one, never send one.\n\n")
	fmt.Fprintf(&b, "```sh\nkimbap call %s.ACTION --ARG VALUE  # one action\nkimbap actions describe %s.ACTION  # its arguments\nkimbap run -- COMMAND  # a program that speaks the API itself\n```\n", s.Name, s.Name)
	b.WriteString("\nExit code 5 is a refusal by policy and 6 waits for a person: report it, and do not try another way.\n")
	writeTriggers(&b, s.Triggers)
	writeActions(&b, s)
	writeGotchas(&b, s.Gotchas)
	writeRecipes(&b, s)
	return []byte(b.String())
}

// purpose says in a sentence when the skill is the right one.
func purpose(s *services.Service) string {
	text := s.Description
	if text == "" {
		text = s.Name
	}
	text = strings.TrimSuffix(text, ".") + " through kimbap, without a key."
	t := s.Triggers
	if len(t.TaskVerbs) > 0 && len(t.Objects) > 0 {
		text += " Use it to " + listed(t.TaskVerbs, "or") + " " + listed(t.Objects, "or") + "."
	} else if len(t.Objects) > 0 {
		text += " Use it for " + listed(t.Objects, "and") + "."
	}
	return text
}

func writeTriggers(b *strings.Builder, t services.Triggers) {
	if len(t.InsteadOf) == 0 {
		return
	}
	b.WriteString("\nUse it instead of " + listed(t.InsteadOf, "or") + ".\n")
}

// writeActions lists what can be called, one line each. Actions that stand for
// many requests are no calls.
func writeActions(b *strings.Builder, s *services.Service) {
	b.WriteString("\n## Actions\n\n| action | risk | what it does | arguments |\n|---|---|---|---|\n")
	for _, a := range s.Actions {
		if catchAll(a) {
			continue
		}
		risk := string(a.Risk)
		if a.GrantsAccess {
			risk += ", hands out access"
		}
		var args []string
		for i := range a.Params {
			p := &a.Params[i]
			name := "`--" + runtime.CallFlag(p.Name) + "`"
			if a.Needs(p) {
				name = "**" + name + "**"
			}
			args = append(args, name)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", a.Ref, risk, cell(a.Description), strings.Join(args, " "))
	}
	b.WriteString("\nArguments in bold are required.\n")
}

func writeGotchas(b *strings.Builder, list []services.Gotcha) {
	if len(list) == 0 {
		return
	}
	b.WriteString("\n## When it goes wrong\n\n")
	for _, g := range list {
		fmt.Fprintf(b, "- **%s** (%s)", oneLine(g.Symptom), g.Severity)
		if g.LikelyCause != "" {
			fmt.Fprintf(b, ": %s", oneLine(g.LikelyCause))
		}
		fmt.Fprintf(b, ". %s\n", oneLine(g.Recovery))
	}
}

func writeRecipes(b *strings.Builder, s *services.Service) {
	if len(s.Recipes) == 0 {
		return
	}
	b.WriteString("\n## Tasks of several steps\n")
	for _, r := range s.Recipes {
		fmt.Fprintf(b, "\n### %s\n\n", oneLine(r.Name))
		if r.Description != "" {
			fmt.Fprintf(b, "%s\n\n", oneLine(r.Description))
		}
		for i, step := range r.Steps {
			fmt.Fprintf(b, "%d. %s\n", i+1, oneLine(step))
		}
	}
}

// catchAll reports whether an action stands for many requests.
func catchAll(a *runtime.Action) bool {
	return a.HTTP != nil && strings.HasSuffix(a.HTTP.Path, "**")
}

// listed joins words: "a, b or c".
func listed(words []string, and string) string {
	words = slices.Clone(words)
	for i := range words {
		words[i] = oneLine(words[i])
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " " + and + " " + words[n-1]
	}
	return strings.Join(words, "")
}

// oneLine keeps the texts of a file from ending a line of the document, and so
// from adding one of their own.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// quoted is a text as YAML and TypeScript read it back, whatever it holds.
func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		return `""` // cannot be: it is text
	}
	return string(data)
}

func cell(text string) string { return strings.ReplaceAll(oneLine(text), "|", `\|`) }
