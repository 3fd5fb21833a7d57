package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func indexed() []string { return []string{"figma", "github", "openai", "resend", "slack"} }

// undescribed are the actions whose path the description of the version in the
// index does not have, each for a reason. A misspelt path is none.
func undescribed() map[string]string {
	const newer = "newer than the description, which its publisher has archived"
	out := map[string]string{
		"github.graphql-query":    "not part of the REST description",
		"github.graphql-mutation": "not part of the REST description",
		"openai.open-realtime":    "a WebSocket, which the description does not know",
		"figma.exchange-oauth":    "logins are described elsewhere",
		"figma.refresh-oauth":     "logins are described elsewhere",
		"resend.exchange-oauth":   "logins are described elsewhere",
	}
	for _, name := range strings.Fields(`write-by-repository-id write-by-org-id update-repository-by-id update-org-by-id
		delete-repository-by-id delete-org-by-id`) {
		out["github."+name] = "GitHub redirects to addresses by number and takes them, and does not list them"
	}
	for _, name := range strings.Fields(`start-upload complete-upload invite-organisation accept-organisation-invite
		exchange-token exchange-openid rotate-config-token create-app open-socket update-app get-external-token start-rtm
		add-role add-workflow-collaborators set-function-permissions add-function-permissions set-trigger-permissions
		add-trigger-permissions assign-auth-policy approve-shared-invite approve-shared-invite-request
		set-external-invites set-canvas-access set-list-access delete-app`) {
		out["slack."+name] = newer
	}
	return out
}

// The typed actions have the methods, the placeholders and the required
// parameters that the official description has.
func TestTypedActionsAgreeWithTheirIndex(t *testing.T) {
	set, missing := load(t), undescribed()
	for _, name := range indexed() {
		s, lines := service(t, set, name), readIndex(t, name)
		for _, a := range s.Actions {
			if catchAll(a) {
				continue
			}
			var same []operation
			for _, o := range lines {
				if shapeOf(o.Path) == shapeOf(a.HTTP.Path) {
					same = append(same, o)
				}
			}
			reason, exempt := missing[string(a.Ref)]
			delete(missing, string(a.Ref))
			switch {
			case len(same) == 0 && !exempt:
				t.Errorf("%s: the index has no path %s", a.Ref, a.HTTP.Path)
			case len(same) > 0 && exempt:
				t.Errorf("%s is in the index now: take it off the list (%s)", a.Ref, reason)
			case len(same) > 0:
				agree(t, a, methods(s, a), same)
			}
		}
	}
	for ref := range missing {
		t.Errorf("%s is on the list and does not exist", ref)
	}
}

func agree(t *testing.T, a *runtime.Action, takes []string, same []operation) {
	t.Helper()
	for _, m := range takes {
		i := slices.IndexFunc(same, func(o operation) bool { return o.Method == m })
		if i < 0 && a.Service == "slack" && len(takes) == 2 {
			continue // Slack takes every method of its API by GET and by POST
		}
		if i < 0 {
			t.Errorf("%s takes %s, which %s does not have", a.Ref, m, same[0].Path)
			continue
		}
		if m == a.HTTP.Method {
			required(t, a, same[i])
		}
	}
}

func required(t *testing.T, a *runtime.Action, o operation) {
	t.Helper()
	for _, r := range o.Required {
		place, name, _ := strings.Cut(r, ":")
		if place == "body" {
			continue
		}
		i := slices.IndexFunc(a.Params, func(p runtime.Param) bool { return p.Name == name })
		if i < 0 || !a.Params[i].Required || string(a.Params[i].In) != place {
			t.Errorf("%s does not require the %s parameter %s of %s", a.Ref, place, name, o)
		}
	}
}
