package approval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

func (d desk) show(t *testing.T, id string, full bool) approval.View {
	t.Helper()
	v, err := d.Show(t.Context(), operator("ann"), runtime.DefaultTenant, id, full)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("the text has U+%04X in it:\n%q", r, v.Text)
		}
	}
	return v
}

// AP-009: what an agent writes cannot forge what a person reads.
func TestAP009Injection(t *testing.T) {
	d := newDesk(t)
	call := refund(agent("a"), "1")
	call.Args = runtime.Args{
		"ansi":        "\x1b[2K\x1b[1Aamount: 1",
		"lines":       "x\n  admin: false\r\n",
		"bidi":        "abc\u202edcba\u2066",
		"blank":       "a\u3164b\u200bc\ufe0f",
		"marks":       "e\u0301\u0301\u0301\u0301\u0301",
		"quote":       `end" not really`,
		"escape":      `\u{202e}`,
		"slack":       "<!channel> [a](https://evil.example) <b>",
		"key\n  fake": "v",
	}
	text := d.show(t, d.ask(t, call), false).Text
	for _, want := range []string{
		`  ansi: "\u{1b}[2K\u{1b}[1Aamount: 1"` + "\n",
		`  lines: "x\n  admin: false\u{d}\n"` + "\n",
		`  bidi: "abc\u{202e}dcba\u{2066}"` + "\n",
		`  blank: "a\u{3164}b\u{200b}c\u{fe0f}"` + "\n",
		`\u{301}`,
		`  quote: "end\" not really"` + "\n",
		`  escape: "\\u{202e}"` + "\n",
		`  "key\n  fake": "v"` + "\n",
		"action     stripe.create-refund (risk high)\n",
		"asked by   claude, a, through call\n",
		"rule       refunds: money\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// AP-009: a long text is cut, with what it takes to tell it from another.
func TestAP009LongText(t *testing.T) {
	d := newDesk(t)
	call := refund(agent("a"), "1")
	call.Args["memo"] = strings.Repeat("A", 100<<10)
	id := d.ask(t, call)
	v := d.show(t, id, false)
	if v.Complete || len(v.Text) > 4096 || !strings.Contains(v.Text, "(102400 bytes, sha256 ") || !strings.Contains(v.Text, "NOT FULLY SHOWN") {
		t.Errorf("complete %t, %d bytes", v.Complete, len(v.Text))
	}
	if v.Args["memo"] != call.Args["memo"] {
		t.Error("the exact arguments are not there")
	}
	if v = d.show(t, id, true); !v.Complete || len(v.Text) < 100<<10 {
		t.Errorf("full: complete %t, %d bytes", v.Complete, len(v.Text))
	}
}

// AP-010: nobody accepts what has not been shown.
func TestAP010Hidden(t *testing.T) {
	deep := any("bottom")
	for range 50 {
		deep = map[string]any{"in": deep}
	}
	wide := map[string]any{}
	for i := range 10_000 {
		wide[fmt.Sprintf("k%05d", i)] = json.Number("1")
	}
	for name, hidden := range map[string]any{"deep": deep, "wide": wide} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			call := refund(agent("a"), "1")
			call.Args["x"] = hidden
			id := d.ask(t, call)
			if v := d.show(t, id, false); v.Complete {
				t.Fatalf("said to be complete:\n%s", v.Text)
			}
			_, err := d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id, approval.Yes{})
			if !errors.Is(err, approval.ErrNotShown) || d.store.state(id) != approval.Pending {
				t.Fatalf("accepted: %v", err)
			}
			if v := d.show(t, id, true); !v.Complete || name == "deep" && !strings.Contains(v.Text, "bottom") {
				t.Error("not all of it with full")
			}
			if _, err := d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id, approval.Yes{Full: true}); err != nil {
				t.Error(err)
			}
		})
	}
}

// AP-010: nor what stands behind the end of a long target, field, number or name.
func TestAP010LongWords(t *testing.T) {
	long := strings.Repeat("7", 5000)
	for name, change := range map[string]func(call *runtime.Call){
		"target": func(call *runtime.Call) { call.Request.Target.Path += long },
		"field":  func(call *runtime.Call) { call.Request.Raw.Header.Set("Stripe-Account", long) },
		"type":   func(call *runtime.Call) { call.Request.Raw.Header.Set("Content-Type", "text/plain; x="+long) },
		"number": func(call *runtime.Call) { call.Args = runtime.Args{"amount": json.Number(long)} },
		"name":   func(call *runtime.Call) { call.Args = runtime.Args{long: true} },
		"list":   func(call *runtime.Call) { call.Args = runtime.Args{"x": []any{[]any{long}}} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			call := posted(agent("a"), "text/plain", "x")
			change(call)
			id := d.ask(t, call)
			if v := d.show(t, id, false); v.Complete || strings.Contains(v.Text, long) {
				t.Fatalf("said to be complete:\n%s", v.Text)
			}
			if _, err := d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id, approval.Yes{}); !errors.Is(err, approval.ErrNotShown) {
				t.Errorf("accepted: %v", err)
			}
			if v := d.show(t, id, true); !v.Complete || !strings.Contains(v.Text, long) {
				t.Errorf("not all of it with full:\n%.300s", v.Text)
			}
		})
	}
}

// AP-010: members of a body that no argument names are shown too.
func TestAP010Body(t *testing.T) {
	d := newDesk(t)
	v := d.show(t, d.ask(t, posted(agent("a"), "application/json", `{"amount":1,"to":{"iban":"X"}}`)), false)
	if !v.Complete || !strings.Contains(v.Text, "  to:\n    iban: \"X\"\n") || !strings.Contains(v.Text, "POST https://api.stripe.com:443/v1/refunds?key=k\n") {
		t.Errorf("\n%s", v.Text)
	}
	v = d.show(t, d.ask(t, posted(agent("a"), "text/plain", "a\nb")), false)
	if !v.Complete || !strings.Contains(v.Text, `"a\nb"`) {
		t.Errorf("\n%s", v.Text)
	}
	id := d.ask(t, posted(agent("a"), "application/octet-stream", "\xff\x00\x01"))
	if v = d.show(t, id, false); v.Complete {
		t.Errorf("bytes that are not text are said to be shown:\n%s", v.Text)
	}
	if v = d.show(t, id, true); !v.Complete || !strings.Contains(v.Text, `"\xff\u{0}\u{1}"`) {
		t.Errorf("\n%s", v.Text)
	}
}

// A declared secret is in no view: not as argument, not in target or body.
func TestSecretArgumentsAreHidden(t *testing.T) {
	d := newDesk(t)
	call := posted(agent("a"), "application/json", `{"password":"hunter 22","note":"it is hunter 22"}`)
	call.Args = runtime.Args{"password": "hunter 22"}
	call.Action.Params = []runtime.Param{{Name: "password", Secret: true}}
	call.Request.Target.Path = "/v1?p=hunter+22"
	v := d.show(t, d.ask(t, call), true)
	if strings.Contains(v.Text, "hunter") || v.Args["password"] != "[secret]" {
		t.Errorf("\n%s", v.Text)
	}
}

// Nor is one that is a number, or a list or an object of several.
func TestSecretsThatAreNoTextAreHidden(t *testing.T) {
	const body = `{"pin":73915,"codes":["red fox","blue"],"card":{"number":41e5,"valid":true},"note":"sent","amount":7}`
	var args runtime.Args
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&args); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	call := posted(agent("a"), "application/json", body)
	call.Args = args
	call.Action.Params = []runtime.Param{{Name: "pin", Secret: true}, {Name: "codes", Secret: true}, {Name: "card", Secret: true}, {Name: "note"}, {Name: "amount"}}
	v := d.show(t, d.ask(t, call), true)
	for _, leak := range []string{"73915", "red fox", "blue", "41e5"} {
		if strings.Contains(v.Text, leak) {
			t.Errorf("%s is shown:\n%s", leak, v.Text)
		}
	}
	for _, told := range []string{"valid: true", "note: \"sent\"", "amount: 7"} {
		if strings.Count(v.Text, told) == 0 {
			t.Errorf("%s is not shown:\n%s", told, v.Text)
		}
	}
}

// What a secret argument's value hides elsewhere is not accepted unseen: an agent chooses both.
func TestASecretArgumentCoversNoOtherUnseen(t *testing.T) {
	d := newDesk(t)
	params := []runtime.Param{{Name: "to"}, {Name: "password", Secret: true}}
	built := func(to, password string) *runtime.Call {
		call := refund(agent("a"), "1")
		call.Action.Params, call.Args = params, runtime.Args{"to": to, "password": password}
		return call
	}
	sent := func(body, target string) *runtime.Call {
		call := posted(agent("a"), "application/json", body)
		call.Action.Params, call.Args, call.Request.Target.Path = params, runtime.Args{"to": "bob", "password": "mallory"}, target
		return call
	}
	const body = `{"to":"bob","password":"mallory"}`
	for name, c := range map[string]struct {
		call    *runtime.Call
		covered bool
	}{
		"another argument":  {built("mallory", "mallory"), true},
		"part of one":       {built("mallory@evil.example", "mallory"), true},
		"a short one":       {built("7", "7"), true},
		"its own":           {built("bob", "mallory"), false},
		"its own, in JSON":  {sent(body, "/v1"), false},
		"another member":    {sent(`{"to":"bob","password":"mallory","cc":"mallory"}`, "/v1"), true},
		"the path":          {sent(body, "/v1/mallory"), true},
		"a member's name":   {sent(`{"to":"bob","password":"mallory","mallory":1}`, "/v1"), true},
		"its own, in query": {sent(`{"to":"bob"}`, "/v1?password=mallory"), false},
	} {
		t.Run(name, func(t *testing.T) {
			id := d.ask(t, c.call)
			v := d.show(t, id, true)
			if v.Complete == c.covered || strings.Contains(v.Text, "HIDDEN: ") != c.covered || strings.Contains(v.Text, "--full") {
				t.Errorf("complete %t:\n%s", v.Complete, v.Text)
			}
			if _, err := d.yes(t, id, approval.Yes{}); errors.Is(err, approval.ErrNotShown) != c.covered {
				t.Errorf("accepted: %v", err)
			}
			if !c.covered {
				return
			}
			if _, err := d.yes(t, id, approval.Yes{Full: true}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A secret that is written otherwise where it belongs hides no second place.
func TestASecretWrittenOtherwiseCoversNoOtherUnseen(t *testing.T) {
	d := newDesk(t)
	const form, jsonType = "application/x-www-form-urlencoded", "application/json"
	for name, c := range map[string]struct {
		kind, body, path string
		args             runtime.Args
		covered          bool
	}{
		"a form":                {form, "password=%61dmin&role=admin", "/v1", runtime.Args{"password": "admin"}, true},
		"the query":             {"", "", "/v1?password=%61dmin&role=admin", runtime.Args{"password": "admin"}, true},
		"the path":              {"", "", "/v1/%61dmin/admin", runtime.Args{"password": "admin"}, true},
		"lower-case escapes":    {form, "password=%c3%a9t%c3%a9&role=%C3%A9t%C3%A9", "/v1", runtime.Args{"password": "été"}, true},
		"an escape in a value":  {form, "password=%61%2541b&role=a%41b", "/v1", runtime.Args{"password": "a%41b"}, true},
		"beside a short one":    {form, "pin=7&password=admin&role=admin", "/v1", runtime.Args{"pin": "7", "password": "admin"}, true},
		"two short ones":        {form, "pin=%37&n=7", "/v1", runtime.Args{"pin": "7"}, true},
		"a short number":        {jsonType, `{"pin":7,"n":"7","N":1}`, "/v1", runtime.Args{"pin": json.Number("7")}, true},
		"twin members":          {jsonType, `{"password":"\u0061dmin","Role":"x","role":"admin"}`, "/v1", runtime.Args{"password": "admin"}, true},
		"twins, escaped twice":  {jsonType, `{"password":"\u0061\\u0041b","Role":"x","role":"a\u0041b"}`, "/v1", runtime.Args{"password": `a\u0041b`}, true},
		"too many to look at":   {form, "password=admin" + strings.Repeat("&", 1<<18), "/v1", runtime.Args{"password": "admin"}, true},
		"its own, in a form":    {form, "password=%61dmin&role=x", "/v1", runtime.Args{"password": "admin"}, false},
		"its own, as it stands": {form, "password=admin&role=x&pin=7", "/v1", runtime.Args{"pin": "7", "password": "admin"}, false},
		"its own, of twins":     {jsonType, `{"password":"admin","Role":"x","role":"y"}`, "/v1", runtime.Args{"password": "admin"}, false},
		"its own, of two parts": {"", "", "/v1/groups/staff", runtime.Args{"password": "groups/staff"}, false},
		"one within the other":  {form, "password=adminadmin&pin=admin", "/v1", runtime.Args{"pin": "admin", "password": "adminadmin"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			call := posted(agent("a"), c.kind, c.body)
			call.Action.Params = []runtime.Param{{Name: "password", Secret: true}, {Name: "pin", Secret: true}}
			call.Args, call.Request.Target.Path = c.args, c.path
			v := d.show(t, d.ask(t, call), true)
			if v.Covered != c.covered || v.Complete == c.covered {
				t.Errorf("covered %t, complete %t:\n%s", v.Covered, v.Complete, v.Text)
			}
			for _, leak := range []string{"%61dmin", "adminadmin", "=%c3%a9t", "=%C3%A9t"} {
				if strings.Contains(v.Text, leak) && name != "the path" {
					t.Errorf("%s is shown:\n%s", leak, v.Text)
				}
			}
		})
	}
}

// A line of a list has the arguments that a view has, of no long request and for no operator
// of another tenant.
func TestArgumentsOfALine(t *testing.T) {
	d := newDesk(t)
	call := refund(agent("a"), "1")
	call.Action.Params = []runtime.Param{{Name: "password", Secret: true}}
	call.Args["password"] = "hunter2"
	id := d.ask(t, call)
	args, _, err := d.Arguments(t.Context(), operator("ann"), runtime.DefaultTenant, id)
	if want := d.show(t, id, true).Args; err != nil || fmt.Sprint(args) != fmt.Sprint(want) || args["password"] == "hunter2" {
		t.Errorf("%v, not %v: %v", args, want, err)
	}
	other := operator("eve")
	other.Tenant = "acme"
	if args, _, err := d.Arguments(t.Context(), other, "acme", id); err == nil || args != nil {
		t.Errorf("another tenant's operator sees %v", args)
	}
	call = refund(agent("a"), "1")
	call.Args["text"] = strings.Repeat("x", 100<<10)
	if args, _, err := d.Arguments(t.Context(), operator("ann"), runtime.DefaultTenant, d.ask(t, call)); err != nil || args != nil {
		t.Errorf("a long one is opened for a line: %d arguments, %v", len(args), err)
	}
}

// Whoever decides is told what the like of a request is before they allow it for a while.
func TestTheLikeOfARequestIsSaid(t *testing.T) {
	d := newDesk(t)
	const said = "stripe.create-refund by claude"
	call := refund(agent("a"), "1")
	if got, want := d.show(t, d.ask(t, call), false).Like, said+", whatever its arguments say (here amount, charge)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	call = refund(agent("b"), "1")
	call.Action.Params = []runtime.Param{{Name: "charge", In: runtime.InPath}, {Name: "amount", In: runtime.InBody}}
	if got, want := d.show(t, d.ask(t, call), false).Like, said+` with {"charge":"ch_1"}, whatever its other arguments say (here amount)`; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
