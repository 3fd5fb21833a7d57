package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func indexed() []string {
	return strings.Fields(`airtable anthropic asana cloudflare confluence datadog discord figma gemini github gitlab gmail google-calendar google-drive
		google-sheets google-storage hubspot jira notion npm openai pagerduty resend sendgrid sentry slack stripe telegram todoist twilio vercel`)
}

// spelled are the services whose placeholders have the names of the description.
func spelled() []string { return []string{"figma", "github", "openai", "resend", "slack"} }

// undescribed reads testdata/undescribed.txt: the actions whose path or method
// the index does not have, each under its reason. A misspelt path is none.
func undescribed(t *testing.T) map[string]string {
	t.Helper()
	return reasons(t, "undescribed.txt")
}

// The typed actions have the methods, the placeholders and the required
// parameters that the official description has.
func TestTypedActionsAgreeWithTheirIndex(t *testing.T) {
	set, missing := load(t), undescribed(t)
	for _, name := range indexed() {
		s, byPath := service(t, set, name), map[string][]operation{}
		for _, o := range readIndex(t, name) {
			byPath[unslashed(o.Path)] = append(byPath[unslashed(o.Path)], o)
		}
		for _, a := range s.Actions {
			if catchAll(a) {
				continue
			}
			var same []operation
			for _, o := range byPath[unslashed(base(a)+a.HTTP.Path)] {
				if isAt(a, o.Host) {
					same = append(same, o)
				}
			}
			reason, exempt := missing[string(a.Ref)]
			delete(missing, string(a.Ref))
			switch {
			case exempt && !described(methods(s, a), same):
				// the reason says why
			case len(same) == 0:
				t.Errorf("%s: the index has no path %s at %s", a.Ref, a.HTTP.Path, a.HTTP.Authorities[0])
			case len(same) > 0 && exempt:
				t.Errorf("%s is in the index now: take it off the list (%s)", a.Ref, reason)
			case len(same) > 0:
				agree(t, a, methods(s, a), same)
			}
		}
	}
	for ref, why := range missing {
		t.Errorf("%s is on the list (%s) and does not exist", ref, why)
	}
}

// isAt reports whether an action is called at the host of its index, if that names one.
func isAt(a *runtime.Action, host string) bool {
	return host == "" || a.HTTP.Authorities[0] == host+":443"
}

// What has no index, and is at another host than the rest of its service, is called there.
func TestActionsAtAHostOfTheirOwn(t *testing.T) {
	set := load(t)
	for ref, host := range map[string]string{
		"codex.refresh-token": "auth.openai.com", "codex.login": "auth.openai.com",
		"codex.begin-device-login": "auth.openai.com", "codex.finish-device-login": "auth.openai.com",
		"codex.send-statistics": "ab.chatgpt.com", "codex.initialize-statistics": "ab.chatgpt.com",
		"claude-code.send-statistics": "statsig.anthropic.com", "claude-code.initialize-statistics": "statsig.anthropic.com",
		"gemini-cli.send-statistics": "play.googleapis.com",
	} {
		if a, ok := set.Action(ref); !ok || !isAt(a, host) {
			t.Errorf("%s is not called at %s", ref, host)
		}
	}
}

// unslashed is the shape of a path without the slash that some descriptions
// end it with.
func unslashed(path string) string { return strings.TrimSuffix(shapeOf(path), "/") }

// described reports whether the operations have all of the methods.
func described(takes []string, same []operation) bool {
	return !slices.ContainsFunc(takes, func(m string) bool {
		return !slices.ContainsFunc(same, func(o operation) bool { return o.Method == m })
	})
}

func agree(t *testing.T, a *runtime.Action, takes []string, same []operation) {
	t.Helper()
	for _, m := range takes {
		i := slices.IndexFunc(same, func(o operation) bool { return o.Method == m })
		if i < 0 && len(takes) == 2 && (a.Service == "slack" || a.Service == "telegram") {
			continue // they take every method of their API by GET and by POST
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

// unneeded are parameters that a description requires and its service does not
// miss: dataset came later than the path, and field has a default. The scope of a
// secret is sent in parts, as scope[type].
func unneeded(a *runtime.Action, name string) bool {
	return slices.Contains([]string{"sentry.query-events dataset", "sentry.query-events field", "stripe.find-secret scope", "stripe.list-secrets scope"}, string(a.Ref)+" "+name)
}

func required(t *testing.T, a *runtime.Action, o operation) {
	t.Helper()
	for _, r := range o.Required {
		place, name, _ := strings.Cut(r, ":")
		if place == "body" || place == "path" && !slices.Contains(spelled(), a.Service) {
			continue // the shape of the path says that the placeholder is there
		}
		if unneeded(a, name) {
			continue
		}
		i := slices.IndexFunc(a.Params, func(p runtime.Param) bool { return p.Name == name })
		if i < 0 || !a.Params[i].Required || string(a.Params[i].In) != place {
			t.Errorf("%s does not require the %s parameter %s of %s", a.Ref, place, name, o)
		}
	}
}
