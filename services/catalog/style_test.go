package catalog_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// verbs are the first words that names of actions have: a verb, or what the
// action itself is called everywhere (whoami, graphql).
const verbs = "accept activate add aggregate allow answer api append approve archive ask assign audit auth authorize ban batch begin block buy bypass call cancel capture change check claim clear clone close compact compare complete confirm connect convert copy count create deactivate delete detach disable disconnect discover dismiss dispatch downgrade edit embed empty enable end erase exchange execute expire export fetch filter finalize find finish follow forward generate get grant graphql import initialize install introspect invite join leave lfs link list load login lookup make manage merge migrate modify move mute onboard open patch pause pay pin ping play post predict promote protect prune publish purge push put query quick record refresh refund register reject remove rename renew reopen replace request rerun resend reset restrict resume retry reverse review revoke roll rollback rotate run schedule scope search send set share snooze start stream submit suspend sync transfer transition trash trust unban unblock uninstall update upgrade upload validate verify void watch web whoami write"

// levels are the risks in rising order.
func levels() []runtime.Risk {
	return []runtime.Risk{runtime.RiskLow, runtime.RiskMedium, runtime.RiskHigh, runtime.RiskCritical}
}

func above(risk, limit runtime.Risk) bool {
	return slices.Index(levels(), risk) > slices.Index(levels(), limit)
}

// The rules of style that a reader of one file expects of the next.
func TestHouseStyle(t *testing.T) {
	for _, s := range overHTTP(load(t)) {
		seen := map[string]string{}
		for _, a := range s.Actions {
			if first, _, _ := strings.Cut(a.Name, "-"); !slices.Contains(strings.Fields(verbs), first) {
				t.Errorf("%s: start the name with a verb (or add yours to the list)", a.Ref)
			}
			if d := a.Description; d == "" || strings.HasSuffix(d, ".") || d[0] < 'A' || d[0] > 'Z' || len(d) > 100 {
				t.Errorf("%s: description %q is not one short phrase with a capital and no full stop", a.Ref, d)
			}
			if a.HTTP.Method == "DELETE" && !above(a.Risk, runtime.RiskMedium) {
				t.Errorf("%s deletes at risk %s", a.Ref, a.Risk)
			}
			if a.Idempotent && a.HTTP.Method != "GET" && above(a.Risk, runtime.RiskLow) {
				t.Errorf("%s is %s and called idempotent: a retry of it needs more thought", a.Ref, a.Risk)
			}
			if a.GrantsAccess && strings.Contains(a.HTTP.Path, ":int}") {
				t.Errorf("%s hands out access, and a number its upstream reads otherwise than we do would slip past {…:int}", a.Ref)
			}
			for _, m := range methods(s, a) {
				shape := m + " " + shapeOf(a.HTTP.Path) + fmt.Sprint(a.HTTP.Query, discriminators(s, a))
				for _, authority := range a.HTTP.Authorities {
					if first, twice := seen[authority+shape]; twice {
						t.Errorf("%s and %s are the same request", first, a.Ref)
					}
					seen[authority+shape] = string(a.Ref)
				}
			}
		}
	}
}

// unrepeatable are the actions with GET that are not the same when they are done
// twice, each with the reason.
func unrepeatable() map[string]string {
	return map[string]string{
		"openai.open-realtime":      "it opens a conversation, and not a page",
		"slack.api-call":            "every method of Slack can be called by GET, those that write too",
		"telegram.call-method":      "every method of Telegram can be called by GET, those that write too",
		"telegram.call-test-method": "every method of Telegram can be called by GET, those that write too",
		"telegram.confirm-updates":  "the offset takes what came before it away",
	}
}

// A read may be repeated, however much its answer gives away: the risk says that.
func TestReadsAreIdempotent(t *testing.T) {
	not, reads := unrepeatable(), 0
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			if a.HTTP.Method != "GET" {
				continue
			}
			reads++
			why, exempt := not[string(a.Ref)]
			delete(not, string(a.Ref))
			switch {
			case !a.Idempotent && !exempt:
				t.Errorf("%s reads and is not idempotent: say so, or say in unrepeatable why not", a.Ref)
			case a.Idempotent && exempt:
				t.Errorf("%s is idempotent: take it off the list (%s)", a.Ref, why)
			}
		}
	}
	for ref := range not {
		t.Errorf("%s is on the list and does not exist", ref)
	}
	if reads < 400 {
		t.Errorf("only %d reads were looked at", reads)
	}
}

var hole = regexp.MustCompile(`\{[^}]*\}`)

// shapeOf is a path with the names of its placeholders taken out.
// Twilio's may end in .json, which is part of the segment.
func shapeOf(path string) string {
	return strings.ReplaceAll(hole.ReplaceAllString(path, "{}"), "{}.json", "{}")
}

// discriminators are what else than method and path makes an action.
func discriminators(s *services.Service, a *runtime.Action) string {
	for i := range s.Routes {
		if m := s.Routes[i].Match; s.Routes[i].Action == string(a.Ref) {
			text, _ := json.Marshal(m) // maps of strings
			return string(text)
		}
	}
	return ""
}
