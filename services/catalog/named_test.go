package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// What is done every day has a name, so that a call can do it and a search finds it.
func TestWhatIsDoneEveryDayHasAName(t *testing.T) {
	set := load(t)
	for ref, want := range map[string]string{
		"github.create-repository":       `POST /user/repos {"name":"x"}`,
		"github.create-org-repository":   `POST /orgs/x/repos {"name":"x"}`,
		"slack.list-my-channels":         `GET /api/users.conversations `,
		"slack.remove-reaction":          `POST /api/reactions.remove {"channel":"x","name":"x","timestamp":"x"}`,
		"stripe.create-product":          `POST /v1/products name=x`,
		"stripe.create-price":            `POST /v1/prices currency=x`,
		"stripe.create-checkout-session": `POST /v1/checkout/sessions `,
		"stripe.create-payment-link":     `POST /v1/payment_links `,
		"stripe.get-subscription":        `GET /v1/subscriptions/x `,
		"jira.update-comment":            `PUT /rest/api/3/issue/x/comment/x {"body":{"member":"one"}}`,
		"hubspot.create-association":     `PUT /crm/v4/objects/x/x/associations/default/x/x `,
		"twilio.delete-message":          `DELETE /2010-04-01/Accounts/x/Messages/x `,
		"notion.send-file-upload":        `POST /v1/file_uploads/x/send `,
	} {
		built := builtBy(t, set, ref, nil)
		body := string(built.Body)
		if ref == "notion.send-file-upload" {
			body = "" // it is in parts
		}
		if got := built.Method + " " + built.Target + " " + body; got != want {
			t.Errorf("%s sends %s, want %s", ref, got, want)
		}
	}
}

// What an API demands is demanded before it is asked, and what it can do without is not.
func TestRequiredArgumentsAreThoseOfTheAPI(t *testing.T) {
	set := load(t)
	for ref, want := range map[string]string{
		"github.delete-content":   "message owner path repo sha",
		"openai.create-response":  "",
		"resend.create-broadcast": "from segment_id subject",
		"gmail.send-message":      "raw",
	} {
		action, _ := set.Action(ref)
		var required []string
		for _, p := range action.Params {
			if p.Required {
				required = append(required, p.Name)
			}
		}
		slices.Sort(required)
		if got := strings.Join(required, " "); got != want {
			t.Errorf("%s requires %q, want %q", ref, got, want)
		}
	}
}

// Slack takes these methods as forms alone.
func TestFormsOfSlackAreForms(t *testing.T) {
	set := load(t)
	for _, ref := range []string{"slack.allow-group-in-channel", "slack.remove-emoji", "slack.remove-remote-file", "slack.remove-restricting-group"} {
		action, _ := set.Action(ref)
		built := builtBy(t, set, ref, runtime.Args{action.Rest: map[string]any{"name": "x"}})
		if string(built.Body) != "name=x" || built.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("%s sends %s as %s", ref, built.Body, built.Header.Get("Content-Type"))
		}
	}
}

// A DELETE has further arguments too: where its API reads them.
func TestDeletesTakeFurtherArguments(t *testing.T) {
	set := load(t)
	mina := map[string]any{"name": "Mina"}
	if built := builtBy(t, set, "github.delete-content", runtime.Args{"author": mina}); string(built.Body) != `{"author":{"name":"Mina"},"message":"x","sha":"x"}` {
		t.Errorf("github.delete-content sends %s", built.Body)
	}
	if built := builtBy(t, set, "stripe.cancel-subscription", runtime.Args{"more": map[string]any{"prorate": "true"}}); built.Target != "/v1/subscriptions/x?prorate=true" {
		t.Errorf("stripe.cancel-subscription asks %s", built.Target)
	}
}
