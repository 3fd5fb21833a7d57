package catalog_test

import (
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// Agents look for an action in the words of those who ask them: what is meant is among the
// first of the whole catalogue.
func TestSearchesFindWhatIsMeant(t *testing.T) {
	set, descriptions, actions := load(t), map[string]string{}, []*runtime.Action(nil)
	for _, s := range overHTTP(set) {
		descriptions[s.Name] = s.Description
		for _, a := range s.Actions {
			if a.Callable() {
				actions = append(actions, a)
			}
		}
	}
	for query, want := range map[string]string{
		"send an email with gmail":                 "gmail.send-message",
		"add a row to a sheet":                     "google-sheets.append-values",
		"create a checkout session":                "stripe.create-checkout-session",
		"create a payment link":                    "stripe.create-payment-link",
		"create a repository":                      "github.create-repository",
		"remove a reaction":                        "slack.remove-reaction",
		"upload a file to notion":                  "notion.send-file-upload",
		"query a data source of a notion database": "notion.query-data-source",
	} {
		found, err := sandbox.SearchActions(actions, descriptions, sandbox.Search{Query: query, Limit: 3}, nil)
		var names []string
		for _, item := range found.Items {
			names = append(names, item.Name)
		}
		if err != nil || !slices.Contains(names, want) {
			t.Errorf("%s: found %v, not %s (%v)", query, names, want, err)
		}
	}
}
