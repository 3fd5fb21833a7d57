package services_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

const shop = `
name: shop
version: 1.0.0
base_url: https://api.shop.test/v1
aliases: [s]
auth: {type: bearer, credential_ref: shop.token}
placeholders: {SHOP_TOKEN: shop_kimbap}
actions:
  list-orders:
    description: List orders
    method: GET
    path: /orders
    args:
      - {name: state, enum: [open, paid, "1"], default: open}
      - {name: limit, type: integer, minimum: 1, maximum: 9007199254740992}
      - {name: ratio, type: number, minimum: 0.01, maximum: 0.1}
      - {name: paid, type: boolean}
      - {name: tags, type: array, enum: [a, b]}
      - {name: where, type: object}
      - {name: pin, secret: true, pattern: "^[0-9]{4}$"}
  get-order: {description: Read one, method: GET, path: "/orders/{id}"}
  get-totals: {description: Read totals, method: GET, path: /orders/totals, risk: {level: high}}
  refund:
    description: Pay back
    method: POST
    path: /orders/{id:int}/refunds
    args:
      - {name: amount, type: integer, required: true, minimum: 1}
      - {name: note}
      - {name: more, rest: true}
    request: {body: {amount_cents: "{amount}", note: "{note}"}}
  list-pulls:
    description: Several from one
    method: GET
    path: /repos/{owner}/{repo}/pulls
    args: [{name: owner}, {name: repo, split: "{owner}/{repo}"}]
  clone:
    description: A split of its own
    method: GET
    path: /clone/{owner}/{name}
    args: [{name: owner}, {name: name}, {name: slug, required: true, split: "{owner}/{name}"}]
  archive: {description: Put away, method: POST, path: "/orders/{id}:archive"}
  read-file: {description: Read, method: GET, path: "/files/{path...}"}
  query: {description: Ask, method: POST, path: /graphql, risk: {level: low}, match: {graphql: {type: query}}, args: [{name: query, required: true}]}
  mutate: {description: Change, method: POST, path: /graphql, risk: {level: high}, match: {graphql: {type: mutation}}, args: [{name: query, required: true}]}
  api-read: {description: any other, method: GET, path: /**}
`

func set(t testing.TB, files ...string) *services.Set {
	t.Helper()
	var list []*services.Service
	for _, text := range files {
		s, err := services.Parse("shop.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	all, err := services.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func n(s string) json.Number { return json.Number(s) }

type args = runtime.Args

func TestArgumentsOfABuiltRequestAreTypedAndCompleted(t *testing.T) {
	all := set(t, shop)
	for _, c := range []struct {
		name   string
		action runtime.Ref
		in     args
		want   args
		err    string // part of the message
	}{
		{"defaults are added", "shop.list-orders", nil, args{"state": "open"}, ""},
		{"an alias names the service", "s.list-orders", nil, args{"state": "open"}, ""},
		{"texts become what is declared", "shop.list-orders",
			args{"state": "paid", "limit": "12", "ratio": "0.10", "paid": "true", "tags": "a", "where": `{"a":1.50}`},
			args{"state": "paid", "limit": n("12"), "ratio": n("0.10"), "paid": true, "tags": []any{"a"}, "where": map[string]any{"a": n("1.50")}}, ""},
		{"a JSON list may be text", "shop.list-orders", args{"tags": `["a","b"]`}, args{"state": "open", "tags": []any{"a", "b"}}, ""},
		{"what is resolved resolves again", "shop.list-orders", args{"state": "open", "limit": n("12")}, args{"state": "open", "limit": n("12")}, ""},
		{"enum", "shop.list-orders", args{"state": "opne"}, nil, `argument "state" of shop.list-orders must be one of open, paid, 1`},
		{"enum in a list", "shop.list-orders", args{"tags": []any{"a", "z"}}, nil, "each value must be one of a, b"},
		{"integers are exact", "shop.list-orders", args{"limit": "9007199254740993"}, nil, "must be at most 9007199254740992"},
		{"not a whole number", "shop.list-orders", args{"limit": "1.5"}, nil, "must be a whole number"},
		{"not a number", "shop.list-orders", args{"limit": "0x10"}, nil, "must be a whole number"},
		{"a whole number with a fraction of zero", "shop.list-orders", args{"limit": n("12.0")}, args{"state": "open", "limit": n("12")}, ""},
		{"a whole number with an exponent", "shop.list-orders", args{"limit": n("2e1")}, args{"state": "open", "limit": n("20")}, ""},
		{"a number keeps its digits", "shop.list-orders", args{"ratio": n("0.100")}, args{"state": "open", "ratio": n("0.100")}, ""},
		{"a number that no float is near", "shop.list-orders", args{"ratio": n("1e400")}, nil, `argument "ratio" of shop.list-orders must be a number that fits a float64`},
		{"a whole number that no float is near", "shop.list-orders", args{"limit": n("1e400")}, nil, `argument "limit" of shop.list-orders must be a whole number that fits a float64`},
		{"a number that would fill memory", "shop.list-orders", args{"limit": "1e999999999"}, nil, "must be a whole number"},
		{"below the minimum", "shop.list-orders", args{"limit": "-5"}, nil, "must be at least 1"},
		{"at the minimum, which no float holds", "shop.list-orders", args{"ratio": "0.01"}, args{"state": "open", "ratio": n("0.01")}, ""},
		{"just below it", "shop.list-orders", args{"ratio": "0.0099"}, nil, "must be at least 0.01"},
		{"boolean", "shop.list-orders", args{"paid": "yes"}, nil, "must be true or false"},
		{"object", "shop.list-orders", args{"where": `{"a":1,"a":2}`}, nil, "must be a JSON object"},
		{"pattern of a secret", "shop.list-orders", args{"pin": "hunter2"}, nil, "must match ^[0-9]{4}$"},
		{"undeclared", "shop.list-orders", args{"limt": "1"}, nil, "is not declared; did you mean limit?"},
		{"required", "shop.refund", args{"id": "1"}, nil, `argument "amount" of shop.refund is required`},
		{"rest collects", "shop.refund", args{"id": "1", "amount": "5", "reason": "x", "more": `{"a":true}`},
			args{"id": n("1"), "amount": n("5"), "more": map[string]any{"reason": "x", "a": true}}, ""},
		{"a null is as if it were not given", "shop.list-orders", args{"limit": nil}, args{"state": "open"}, ""},
		{"but for a name that is not declared", "shop.list-orders", args{"limt": nil}, nil, "is not declared; did you mean limit?"},
		{"in the rest it is a value", "shop.refund", args{"id": "1", "amount": "5", "reason": nil},
			args{"id": n("1"), "amount": n("5"), "more": map[string]any{"reason": nil}}, ""},
		{"rest does not replace what was judged", "shop.refund", args{"id": "1", "amount": "5", "amount_cents": "999"}, nil, "the service sets amount_cents itself"},
		{"nor in another case", "shop.refund", args{"id": "1", "amount": "5", "more": map[string]any{"Amount_Cents": 999}}, nil, "the service sets amount_cents itself"},
		{"rest twice", "shop.refund", args{"id": "1", "amount": "5", "a": "x", "more": map[string]any{"a": "y"}}, nil, "is given twice"},
		{"split into itself", "shop.list-pulls", args{"repo": "cli/go"}, args{"owner": "cli", "repo": "go"}, ""},
		{"no split needed", "shop.list-pulls", args{"owner": "cli", "repo": "go"}, args{"owner": "cli", "repo": "go"}, ""},
		{"split against itself", "shop.list-pulls", args{"owner": "other", "repo": "cli/go"}, nil, "is given twice, by itself and in repo"},
		{"split of its own", "shop.clone", args{"slug": "cli/go"}, args{"owner": "cli", "name": "go"}, ""},
		{"split does not fit", "shop.clone", args{"slug": "a/b/c"}, nil, "must have the form {owner}/{name}"},
		{"a path of several segments", "shop.read-file", args{"path": "a/b c/d"}, args{"path": "a/b c/d"}, ""},
		{"a custom method", "shop.archive", args{"id": "a:b"}, args{"id": "a:b"}, ""},
		{"dots in it", "shop.read-file", args{"path": "a/../b"}, nil, `stands in the path and may not be empty, "." or ".."`},
		{"dots for a segment", "shop.get-order", args{"id": ".."}, nil, `stands in the path and may not be empty, "." or ".."`},
		{"empty segment", "shop.get-order", args{"id": ""}, nil, "may not be empty"},
		{"slash in a segment", "shop.get-order", args{"id": "a/b"}, nil, "do not make a request of shop.get-order"},
		{"a value that is another action", "shop.get-order", args{"id": "totals"}, nil, "the request is shop.get-totals, not shop.get-order"},
		{"a query", "shop.query", args{"query": "query { me }"}, args{"query": "query { me }"}, ""},
		{"a mutation called a query", "shop.query", args{"query": "mutation { del }"}, nil, "the request is shop.mutate, not shop.query"},
		{"a catch-all", "shop.api-read", nil, nil, "covers many requests"},
		{"unknown action", "shop.list-order", nil, nil, `there is no action "shop.list-order"`},
		{"net.pass is no call", "net.pass", nil, nil, `there is no action "net.pass"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.in})
			action, got := found.Action, found.Args
			if c.err != "" {
				var e *runtime.Error
				if !errors.As(err, &e) || !strings.Contains(e.Msg, c.err) {
					t.Fatalf("got %v, want a message with %q", err, c.err)
				}
				if action != nil || got != nil {
					t.Error("a refusal returned an action")
				}
				if strings.Contains(e.Msg+e.Hint, "hunter2") {
					t.Error("the message holds a secret")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestArgumentsOfAReceivedRequestStayAsTheyCame(t *testing.T) {
	all := set(t, shop)
	home := runtime.Target{Scheme: "https", Authority: "api.shop.test:443", Method: "GET"}
	for _, c := range []struct {
		name   string
		action runtime.Ref
		target runtime.Target
		in     args
		want   args
		err    string
	}{
		{"no defaults", "shop.list-orders", home, nil, args{}, ""},
		{"typed as read", "shop.list-orders", home, args{"limit": n("3")}, args{"limit": n("3")}, ""},
		{"a text is no number", "shop.list-orders", home, args{"limit": "3"}, nil, "must be of type integer"},
		{"a number is no text", "shop.list-orders", home, args{"state": n("1")}, nil, "must be of type string"},
		{"enum holds", "shop.list-orders", home, args{"state": "x"}, nil, "must be one of"},
		{"body arguments may be absent", "shop.refund", home, args{"id": n("1")}, args{"id": n("1")}, ""},
		{"path arguments may not", "shop.refund", home, args{"amount": n("1")}, nil, `argument "id" of shop.refund is required`},
		{"bounds hold", "shop.refund", home, args{"id": n("1"), "amount": n("-5")}, nil, "must be at least 1"},
		{"undeclared", "shop.refund", home, args{"id": n("1"), "x": "y"}, nil, "is not declared"},
		{"a host that is not the service's", "shop.refund", runtime.Target{Scheme: "https", Authority: "evil.test:443"}, args{"id": n("1")}, nil, "does not belong to the service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.in, Target: c.target, Raw: &runtime.Raw{}})
			got := found.Args
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, %v, want %#v", got, err, c.want)
			}
		})
	}
}

// A strict service has every body read, so an argument that is not in it is
// missed; for the others a body that is passed on tells nothing.
func TestStrictServicesMissArgumentsOfTheBody(t *testing.T) {
	strict := set(t, strings.Replace(shop, "\nactions:", "\nstrict: true\nactions:", 1))
	target := runtime.Target{Scheme: "https", Authority: "api.shop.test:443", Method: "POST"}
	for _, c := range []struct {
		name string
		set  *services.Set
		raw  *runtime.Raw
		args args
		err  string
	}{
		{"no body", strict, &runtime.Raw{}, args{"id": n("1")}, `argument "amount" of shop.refund is required`},
		{"null", strict, &runtime.Raw{}, args{"id": n("1"), "amount": nil}, `argument "amount" of shop.refund is required`},
		{"there", strict, &runtime.Raw{}, args{"id": n("1"), "amount": n("1")}, ""},
		{"not strict", set(t, shop), &runtime.Raw{}, args{"id": n("1")}, ""},
		{"not read", strict, &runtime.Raw{Body: strings.NewReader("{}")}, args{"id": n("1")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.set.Resolve(&runtime.Request{Action: "shop.refund", Args: c.args, Target: target, Raw: c.raw})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

func TestHostsOfNoServiceArePassOrTunnel(t *testing.T) {
	all := set(t, shop)
	for _, c := range []struct {
		action            runtime.Ref
		scheme, authority string
		backend           string
		risk              runtime.Risk
	}{
		{runtime.ActionPass, "https", "other.test:443", "rest", runtime.RiskUnmatched},
		{runtime.ActionPass, "tcp", "other.test:443", "tunnel", runtime.RiskUnmatched},
		{runtime.ActionTunnel, "tcp", "other.test:22", "tunnel", runtime.RiskCritical},
		{runtime.ActionTunnel, "http", "other.test:6379", "rest", runtime.RiskCritical},
		{runtime.ActionTunnel, "https", "other.test:443", "rest", runtime.RiskCritical},
		{runtime.ActionPass, "http", "other.test:6379", "", ""},
		{runtime.ActionPass, "tcp", "other.test:22", "", ""},
		{runtime.ActionPass, "https", "api.shop.test:443", "", ""},
		{runtime.ActionPass, "tcp", "api.shop.test:443", "", ""},
		{runtime.ActionPass, "http", "api.shop.test:80", "", ""},
		{runtime.ActionTunnel, "tcp", "api.shop.test:443", "", ""},
	} {
		found, err := all.Resolve(&runtime.Request{Action: c.action, Target: runtime.Target{Scheme: c.scheme, Authority: c.authority}, Raw: &runtime.Raw{}})
		action := found.Action
		if c.backend == "" {
			if runtime.CodeOf(err) != runtime.CodeForbidden {
				t.Errorf("%s to %s://%s: a service's host passed: %v", c.action, c.scheme, c.authority, err)
			}
			continue
		}
		if err != nil || action.Backend != c.backend || action.Risk != c.risk || action.Auth.Type != runtime.AuthNone || action.Ref != c.action {
			t.Errorf("%s to %s://%s: %+v, %v", c.action, c.scheme, c.authority, action, err)
		}
	}
}

// What the classifier reads from a request goes through Resolve as it is.
func TestMatchThenResolve(t *testing.T) {
	all := set(t, shop)
	body, err := classifier.ParseBody("application/json", "", []byte(`{"amount_cents":1e3,"note":"n","other":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := all.Table().Match(classifier.Input{Scheme: "https", Authority: "api.shop.test:443", Method: "POST", Target: "/v1/orders/7/refunds", Body: body})
	if err != nil || m.Action != "shop.refund" {
		t.Fatal(m, err)
	}
	found, err := all.Resolve(&runtime.Request{
		Action: runtime.Ref(m.Action), Args: m.Args, Raw: &runtime.Raw{},
		Target: runtime.Target{Scheme: "https", Authority: "api.shop.test:443"},
	})
	got := found.Args
	if want := (args{"id": n("7"), "amount": n("1e3"), "note": "n"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAMistypedActionIsFound(t *testing.T) {
	all := set(t, shop)
	for ref, want := range map[string]string{
		"shop.list-order": "shop.list-orders",
		"shp.refund":      "shop.refund",
		"s.refnd":         "shop.refund",
		"shop.list-pull":  "shop.list-pulls",
	} {
		if got := all.Suggest(ref); len(got) == 0 || got[0] != want {
			t.Errorf("%s: got %v, want %s first", ref, got, want)
		}
	}
	if got := all.Suggest("elsewhere.refund"); len(got) > 0 {
		t.Errorf("a far name got %v", got)
	}
}

func TestSetLooksUp(t *testing.T) {
	all := set(t, shop, strings.NewReplacer("name: shop", "name: shop-files", "aliases: [s]", "", "api.shop", "files.shop").Replace(shop))
	if got := all.AuthoritiesOf("shop.token"); !slices.Equal(got, []string{"api.shop.test:443", "files.shop.test:443"}) {
		t.Errorf("authorities %v", got)
	}
	if got := all.AuthoritiesOf(""); got != nil {
		t.Errorf("no secret has authorities %v", got)
	}
	if name, ok := all.Placeholder("shop_kimbap"); !ok || name != "shop" {
		t.Errorf("placeholder of %q, %v", name, ok)
	}
	if _, ok := all.Placeholder("real"); ok {
		t.Error("a value that is no placeholder was found")
	}
	for text, want := range map[string]bool{
		"shop_kimbap": true, "X-Shop_Kimbap": true, "SHOP_KIMBAP-x": true, "a-shop_kimbap1": true,
		"": false, "X": false, "Shop-Kimbap": false, "shop_kimba": false, "X-Shopify-Access-Token": false, "hop_kimbap": false,
	} {
		if name, ok := all.PlaceholderIn(text); ok != want || ok && name != "shop" {
			t.Errorf("a placeholder in %q: %q, %v", text, name, ok)
		}
	}
	live := services.NewLive(nil)
	if _, err := live.Resolve(&runtime.Request{Action: "shop.refund"}); runtime.CodeOf(err) != runtime.CodeUnknownAction {
		t.Errorf("an empty set resolved: %v", err)
	}
	live.Swap(all)
	if _, err := live.Resolve(&runtime.Request{Action: "shop.list-orders"}); err != nil {
		t.Error(err)
	}
}

// An approval is for one definition: what changes what may happen changes the
// digest, and moving the text does not.
func TestADigestChangesWithWhatMayHappenOnly(t *testing.T) {
	of := func(text string) string {
		a, ok := set(t, text).Action("shop.refund")
		if !ok {
			t.Fatal("no action")
		}
		return a.Digest
	}
	first := of(shop)
	if of("# moved\n\n"+shop) != first || of(shop) != first {
		t.Error("the digest depends on the position in the file")
	}
	for _, change := range [][2]string{
		{"base_url: https://api.shop.test", "base_url: https://api2.shop.test"},
		{"{type: bearer, credential_ref: shop.token}", "{type: bearer, credential_ref: other.token}"},
		{"{type: bearer, credential_ref: shop.token}", "{type: bearer, credential_ref: shop.token, caller: keep}"},
		{"amount_cents", "amount"},
		{"required: true, minimum: 1}", "required: true, minimum: 2}"},
		{"/orders/{id:int}/refunds", "/orders/{id}/refunds"},
		{"version: 1.0.0", "version: 1.0.0\nhosts: [more.shop.test]"},
		{"version: 1.0.0", "version: 1.0.0\nstrict: true"},
	} {
		if of(strings.Replace(shop, change[0], change[1], 1)) == first {
			t.Errorf("the digest does not see %s", change[1])
		}
	}
}
