package catalog_test

import (
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// moving finds the operations of Stripe that move money, or begin to; ending those that only
// stop it.
var (
	moving = regexp.MustCompile(`/(refunds?|refund_payment|payment_intents|charges|transfers|payouts|payout_intents|topups|subscriptions|subscription_items|invoices|` +
		`credit_notes|credit_grants|outbound_\w+|inbound_\w+|balance_transactions|quotes|orders|reversals|(credit|debit)_reversals|(confirm|process)_payment_intent)\b`)
	ending = regexp.MustCompile(`/(cancel|void|mark_uncollectible|expire|close|remove_lines|pause)$`)
)

// A payment whose answer was lost is tried again: with the key of the first try it is made once.
func TestPaymentsTakeAKeyForTheirTries(t *testing.T) {
	set, found := load(t), 0
	for _, a := range service(t, set, "stripe").Actions {
		if catchAll(a) || a.HTTP.Method != http.MethodPost || !moving.MatchString(a.HTTP.Path) || ending.MatchString(a.HTTP.Path) {
			continue
		}
		found++
		if !slices.ContainsFunc(a.Params, func(p runtime.Param) bool { return p.Name == "idempotency_key" }) {
			t.Errorf("%s takes no idempotency_key", a.Ref)
			continue
		}
		if key := builtBy(t, set, string(a.Ref), runtime.Args{"idempotency_key": "k1"}).Header.Get("Idempotency-Key"); key != "k1" {
			t.Errorf("%s sends the key %q", a.Ref, key)
		}
	}
	if found < 40 {
		t.Errorf("only %d payments were looked at", found)
	}
}
