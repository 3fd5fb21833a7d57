package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

func (d desk) shown(t testing.TB, id string) approval.View {
	t.Helper()
	v, err := d.Show(t.Context(), operator(me), runtime.DefaultTenant, id, false)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A person sees what is other than the last time they said yes to the action.
func TestShowComparesToTheLastYes(t *testing.T) {
	d := newDesk(t)
	post := func(body string) *runtime.Call { return posted(agent("a"), "application/json", body) }
	id := d.ask(t, post(`{"amount":5,"to":{"name":"ann","gone":true},"list":[1,2]}`))
	if v := d.shown(t, id); strings.Contains(v.Text, "compared") {
		t.Errorf("compared to nothing:\n%s", v.Text)
	}
	d.accept(t, id)
	if v := d.shown(t, id); strings.Contains(v.Text, "compared") {
		t.Errorf("compared to itself:\n%s", v.Text)
	}
	next := d.ask(t, post(`{"amount":999999,"to":{"name":"ann"},"list":[1,2],"note":"\u001b[2J\u202e"}`))
	v := d.shown(t, next)
	for _, want := range []string{"compared to " + id, "by " + me, "~ body.amount: 5 → 999999\n", "- body.to.gone: true\n", `+ body.note: "\u{1b}[2J\u{202e}"`} {
		if !strings.Contains(v.Text, want) {
			t.Errorf("%q is not in\n%s", want, v.Text)
		}
	}
	for _, same := range []string{"~ body.list", "body.to.name: \"ann\" →", "\x1b", "\u202e"} {
		if strings.Contains(v.Text, same) {
			t.Errorf("%q is in\n%s", same, v.Text)
		}
	}
	if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, next, ""); err != nil {
		t.Fatal(err)
	}
	again := d.ask(t, posted(agent("b"), "application/json", `{"amount":5,"to":{"name":"ann","gone":true},"list":[2,1]}`))
	if v := d.shown(t, again); !strings.Contains(v.Text, "compared to "+id) || !strings.Contains(v.Text, "~ body.list[0]: 1 → 2") {
		t.Errorf("compared to what was rejected:\n%s", v.Text)
	}
}

// The comparison shows no secret argument, has an end, and says nothing of a row
// that was edited.
func TestComparisonIsSafe(t *testing.T) {
	d := newDesk(t)
	with := func(secret, many string) *runtime.Call {
		call := refund(agent("a"), "1")
		call.Action.Params = []runtime.Param{{Name: "key", Secret: true}}
		call.Args["key"] = secret
		for i := range 50 {
			call.Args["x"+strings.Repeat("x", i)] = many
		}
		return call
	}
	id := d.ask(t, with("old-secret", "a"))
	if _, err := d.yes(t, id, approval.Yes{Full: true}); err != nil {
		t.Fatal(err)
	}
	next := d.ask(t, with("new-secret", "b"))
	v := d.shown(t, next)
	if strings.Contains(v.Text, "-secret") || !strings.Contains(v.Text, "… and 30 more") {
		t.Errorf("%s", v.Text)
	}
	d.store.edit(id, func(a *approval.Approval) { a.Sealed = flipped(a.Sealed) })
	if v := d.shown(t, next); strings.Contains(v.Text, "compared") {
		t.Errorf("compared to an edited row:\n%s", v.Text)
	}
}

// Nor does it show one that is written otherwise than Go writes it, as JavaScript leaves ! ' ( ) *
// bare, and nothing of it is kept; no notice, and no list of what stands, shows it in the path.
func TestASecretWrittenOtherwiseIsComparedHidden(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	with := func(secret, path, body string) *runtime.Call {
		call := posted(agent("a"), form, body)
		call.Action.Params = []runtime.Param{{Name: "password", Secret: true}}
		call.Args, call.Request.Target.Path = runtime.Args{"password": secret}, path
		return call
	}
	for place, of := range map[string]func(secret, written string) *runtime.Call{
		"path":  func(secret, written string) *runtime.Call { return with(secret, "/v1/"+written, "") },
		"query": func(secret, written string) *runtime.Call { return with(secret, "/v1?password="+written, "") },
		"form":  func(secret, written string) *runtime.Call { return with(secret, "/v1", "n=1&password="+written) },
	} {
		t.Run(place, func(t *testing.T) {
			told := &board{}
			d := deskOver(t, newMemory(), "me", func(o *approval.Options) { o.Tell = told.tell })
			first := d.ask(t, of("pa$s!word", "pa%24s!word"))
			if _, err := d.yes(t, first, approval.Yes{Full: true, For: time.Hour}); err != nil {
				t.Fatal(err)
			}
			other := of("an$other!", "an%24other!")
			other.Request.Raw.Header.Set("Stripe-Version", "2")
			second := d.ask(t, other)
			texts := []string{d.shown(t, second).Text}
			ticket, err := d.Await(t.Context(), of("pa$s!word", "pa%24s!word"), asked())
			if err == nil {
				err = d.Finish(t.Context(), ticket, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, d.shown(t, second).Text) // beside what is kept of the first
			standing, err := d.Standing(t.Context(), operator(me), runtime.DefaultTenant)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range append(texts, fmt.Sprint(told.got, standing)) {
				if strings.Contains(text, "s!word") || strings.Contains(text, "other!") {
					t.Errorf("%s", text)
				}
			}
			if !strings.Contains(texts[0], "compared to "+first) || !strings.Contains(texts[1], "compared to "+first) {
				t.Errorf("not compared: %q", texts)
			}
		})
	}
}

// A secret that begins like the other side's is hidden whole.
func TestASecretThatBeginsLikeTheLastOneIsHiddenWhole(t *testing.T) {
	d := newDesk(t)
	with := func(secret string) *runtime.Call {
		call := posted(agent("a"), "text/plain", "it is "+secret)
		call.Action.Params, call.Args = []runtime.Param{{Name: "password", Secret: true}}, runtime.Args{"password": secret}
		return call
	}
	first := d.ask(t, with("hunter-2025"))
	if _, err := d.yes(t, first, approval.Yes{Full: true}); err != nil {
		t.Fatal(err)
	}
	if v := d.shown(t, d.ask(t, with("hunter"))); !strings.Contains(v.Text, "compared to "+first) || strings.Contains(v.Text, "-2025") {
		t.Errorf("%s", v.Text)
	}
}
