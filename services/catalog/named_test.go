package catalog_test

import "testing"

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
