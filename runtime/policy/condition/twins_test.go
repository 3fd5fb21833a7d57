package condition_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A member that differs from one a rule names in its case only is that one to some
// servers, and so is a list in a form: nobody can say which of them is read, or
// whether it is there. Other members pass.
func TestMembersInAnotherSpellingCannotBeJudged(t *testing.T) {
	for when, bodies := range map[string]struct{ twins, plain []string }{
		`request.body.?amount.orValue(0) > 100`: {
			[]string{
				`{"amount":1,"Amount":1000}`, `{"AMOUNT":1000}`, `{"amount":1,"amount[]":9}`, `{"amount[0]":9}`, `{" amount":9}`, `{"Amount[a][b]":9}`,
				`{"amount\u0000x":1}`, `{"amount     [x]":1}`, `{"\u00a0Amount [":1}`, `{"[amount]":9}`, `{"amount]":9}`, `{"][ Amount":9}`, `{"\ufeffamount":9}`,
			},
			[]string{`{"amount":1}`, `{}`, `{"amounts":1000,"x":{"Amount":1}}`, `{"metadata[amount]":"1"}`, `[]`, `null`, `[1]`, `"Amount"`},
		},
		`has(request.body.task) && request.body.task == "x"`:      {[]string{`{"tas\u212a":"x"}`, `{"TASK":"x"}`}, []string{`{"asks":1}`, `{"task":"y","tasks":1}`}},
		`has(request.body.user_name)`:                             {[]string{`{"user.name":"x"}`, `{"user name":"x"}`, `{"user[name":"x"}`}, []string{`{"username":"x"}`, `{"user[name]":"x"}`}},
		`has(request.body.charge) && request.body.charge.sum > 1`: {[]string{`{"charge":{"sum":0,"Sum":9}}`, `{"Charge":{"sum":9}}`}, []string{`{"charge":{"sum":0},"Sum":9}`, `{"x":{"Sum":1}}`}},
		`request.body.?items.orValue([]).exists(i, i.?sum.orValue(0) > 1)`: {
			[]string{`{"items":[{"sum":1},{"Sum":9}]}`, `{"Items":[]}`}, []string{`{"items":[{"sum":1,"x":{"Sum":9}}],"SUM":1}`},
		},
		`request.body.items.filter(i, i.ok)[0].sum > 1`:                      {[]string{`{"items":[{"ok":true,"sum":1,"SUM":2}]}`, `{"items":[{"OK":true}]}`}, []string{`{"items":[{"ok":true,"sum":1,"x":2}]}`}},
		`request.body.items.map(i, i.price).exists(p, p.sum > 1)`:            {[]string{`{"items":[{"price":{"sum":1,"Sum":2}}]}`}, []string{`{"items":[{"price":{"sum":1},"Sum":2}]}`}},
		`request.body.?charge.optMap(c, c.sum).orValue(0) > 1`:               {[]string{`{"charge":{"sum":1,"Sum":2}}`}, []string{`{"charge":{"sum":1},"Sum":2}`}},
		`(has(request.body.a) ? request.body.a : request.body.b).sum > 1`:    {[]string{`{"b":{"sum":1,"Sum":2}}`, `{"a":{"sum":1,"Sum":2}}`}, []string{`{"b":{"sum":1},"Sum":2}`}},
		`"amount" in request.body`:                                           {[]string{`{"Amount":1}`}, []string{`{"x":1}`}},
		`request.body.exists(k, k == "amount")`:                              {[]string{`{"Amount":1}`}, []string{`{"x":1}`}},
		`request.body.exists(k, k in ["x", "amount"])`:                       {[]string{`{"Amount":1}`}, []string{`{"y":1}`}},
		`request.body[principal.agent].sum > 1`:                              {[]string{`{"claude":{"sum":1,"Sum":2}}`}, []string{`{"claude":{"sum":1}}`}},
		`has(request.body.amount) || has(request.body.Amount)`:               {[]string{`{"AMOUNT":1}`}, []string{`{"amount":1,"Amount":2}`, `{"Amount":1}`}},
		`request.body[?"items[]"].hasValue() || has(request.body["a[b]"].c)`: {[]string{`{"items[0]":1}`, `{"items":1,"a[b]":{}}`, `{"A[b]":1}`, `{"a[b][]":1}`}, []string{`{"items[]":1}`, `{"a[b]":{}}`, `{"a[b]":{},"a[c]":1}`}},
	} {
		c := compile(t, when, nil)
		ask := func(body string) error {
			q := question(nil)
			decoder := json.NewDecoder(strings.NewReader(body))
			decoder.UseNumber()
			if err := decoder.Decode(&q.Request.Document); err != nil {
				t.Fatal(body, err)
			}
			q.Request.Raw.Body, q.Request.Parsed = http.NoBody, true
			_, err := c.Holds(q)
			return err
		}
		for _, body := range bodies.twins {
			if err := ask(body); err == nil || !strings.Contains(err.Error(), "spelling") {
				t.Errorf("%s: %s: %v", when, body, err)
			}
		}
		for _, body := range bodies.plain {
			if err := ask(body); err != nil && strings.Contains(err.Error(), "spelling") {
				t.Errorf("%s: %s: %v", when, body, err)
			}
		}
	}
}

// Servers leave out blanks and control characters around what they compare, so that "admin "
// is admin to them. What a rule does not compare with a text of its own passes as it is.
func TestBlanksAroundWhatIsComparedCannotBeJudged(t *testing.T) {
	for when, values := range map[string]struct{ padded, plain []string }{
		`request.body.role == "admin"`:                  {[]string{" admin", "admin\t", "\u00a0admin", "admin\n", "\x1fadmin", "admin\x00", "\ufeffadmin", "admin\u180e"}, []string{"admin", "user", " user", "ad min", ""}},
		`request.body.role != "admin"`:                  {[]string{" admin"}, []string{"admin", " user"}},
		`request.body.role in ["admin", "owner "]`:      {[]string{"admin ", "\tadmin"}, []string{"admin", "owner ", "owner", " user"}},
		`request.body.?role.orValue("x") == "admin"`:    {[]string{"admin "}, []string{"admin", " x"}},
		`"admin" in request.query["role"]`:              {[]string{" admin"}, []string{"admin", " user"}},
		`request.query["role"].exists(r, r == "admin")`: {[]string{" admin", "admin\t"}, []string{"admin", " user"}},
		`request.query["role"][0] == "admin"`:           {[]string{"admin "}, []string{"admin", "user"}},
		`args.role == "admin"`:                          {[]string{" admin"}, []string{"admin", " user"}},
		`request.body.role.startsWith("admin")`:         {[]string{" admin"}, []string{"admin", "admin ", " user"}},
	} {
		c := compile(t, when, nil)
		ask := func(role string) error {
			q := question(map[string]any{"role": role})
			q.Request.Document, q.Request.Raw.Body, q.Request.Parsed = map[string]any{"role": role}, http.NoBody, true
			q.Request.Target.Method, q.Request.Target.Path = "GET", "/x?role="+url.QueryEscape(role)
			_, err := c.Holds(q)
			return err
		}
		for _, role := range values.padded {
			if err := ask(role); err == nil || !strings.Contains(err.Error(), "blanks") {
				t.Errorf("%s: %q: %v", when, role, err)
			}
		}
		for _, role := range values.plain {
			if err := ask(role); err != nil {
				t.Errorf("%s: %q: %v", when, role, err)
			}
		}
	}
}

// Of a list each element is compared.
func TestBlanksAroundAnElementCannotBeJudged(t *testing.T) {
	for _, when := range []string{`request.body.roles.exists(r, r == "admin")`, `"admin" in request.body.roles`, `request.body.roles[0] == "admin"`} {
		c := compile(t, when, nil)
		for role, refused := range map[string]bool{"admin": false, "user": false, " admin": true, "admin\n": true} {
			q := question(nil)
			q.Request.Document, q.Request.Raw.Body, q.Request.Parsed = map[string]any{"roles": []any{role}}, http.NoBody, true
			if _, err := c.Holds(q); refused != (err != nil && strings.Contains(err.Error(), "blanks")) {
				t.Errorf("%s: %q: %v", when, role, err)
			}
		}
	}
}

// What a rule looks for in the body, servers find in the query as well, where they have one
// map for both. Of a read nobody looks for a body.
func TestAMemberOfTheBodyInTheQueryCannotBeJudged(t *testing.T) {
	c := compile(t, `has(request.body.role) && request.body.role == "admin"`, nil)
	for target, refused := range map[string]bool{
		"POST /x?role=admin": true, "PUT /x?a=1&Role=admin": true, "DELETE /x?[role]=admin": true, "POST /x?role[]=admin": true,
		"POST /x": false, "POST /x?a=role": false, "GET /x?role=admin": false, "HEAD /x?role=admin": false, "PATCH /x?x[role]=admin": false,
	} {
		for _, body := range []any{map[string]any{}, map[string]any{"role": "user"}} {
			q := question(nil)
			q.Request.Target.Method, q.Request.Target.Path, _ = strings.Cut(target, " ")
			q.Request.Document, q.Request.Raw.Body, q.Request.Parsed = body, http.NoBody, true
			if _, err := c.Holds(q); refused != (err != nil) || refused && !strings.Contains(err.Error(), "request.query") {
				t.Errorf("%s with %v: %v", target, body, err)
			}
		}
	}
}

// A field of a form that comes twice is a list here, and one of the two to most servers. A
// rule that compares it with one value cannot be judged; one that looks into lists can.
func TestAListIsNotComparedWithOneValue(t *testing.T) {
	for when, bodies := range map[string]struct{ lists, plain []string }{
		`has(request.body.role) && request.body.role == "admin"`:                    {[]string{`{"role":["user","admin"]}`, `{"role":[]}`}, []string{`{"role":"user"}`, `{}`, `{"x":["admin"]}`}},
		`"admin" == request.body.?role.orValue("")`:                                 {[]string{`{"role":["user","admin"]}`}, []string{`{"role":"user"}`, `{}`}},
		`request.body[?"role"].orValue("") != "user"`:                               {[]string{`{"role":["user"]}`}, []string{`{"role":"user"}`}},
		`request.body.?role.orValue("") in ["admin", "owner"]`:                      {[]string{`{"role":["user","admin"]}`}, []string{`{"role":"user"}`}},
		`(has(request.body.a) ? request.body.a : "") == "x"`:                        {[]string{`{"a":["x"]}`}, []string{`{"a":"x"}`, `{"b":["x"]}`}},
		`request.body.?role.orValue("") == principal.agent`:                         {[]string{`{"role":["x"]}`}, []string{`{"role":"x"}`}},
		`request.body.?member.optMap(m, m.role).orValue("") == "admin"`:             {[]string{`{"member":{"role":["admin"]}}`}, []string{`{"member":{"role":"x","y":["admin"]}}`}},
		`request.body.?members.orValue([]).exists(m, m.?role.orValue("") == "x")`:   {[]string{`{"members":[{"role":"y"},{"role":["x"]}]}`}, []string{`{"members":[{"role":"y"}]}`, `{"members":[]}`}},
		`request.body.?labels.orValue([]).exists(l, l == "x")`:                      {nil, []string{`{"labels":["x","y"]}`, `{"labels":[]}`}},
		`size(request.body.?labels.orValue([])) == 2`:                               {nil, []string{`{"labels":["x","y"]}`}},
		`request.body.?labels.orValue([]) == ["x"] || has(request.body.y) == false`: {nil, []string{`{"labels":["x"]}`, `{"y":["x"]}`}},
		`"x" in request.body.?labels.orValue([])`:                                   {nil, []string{`{"labels":["x"]}`}},
		`request.body.?labels.orValue([""])[0] == "x"`:                              {nil, []string{`{"labels":["x","y"]}`}},
	} {
		c := compile(t, when, nil)
		for lists, bodies := range map[bool][]string{true: bodies.lists, false: bodies.plain} {
			for _, body := range bodies {
				q := question(nil)
				if err := json.Unmarshal([]byte(body), &q.Request.Document); err != nil {
					t.Fatal(body, err)
				}
				q.Request.Raw.Body, q.Request.Parsed = http.NoBody, true
				if _, err := c.Holds(q); lists && (err == nil || !strings.Contains(err.Error(), "request.body has a list")) || !lists && err != nil {
					t.Errorf("%s: %s: %v", when, body, err)
				}
			}
		}
	}
}

// The same of the query, where nothing is known of what a server makes of its keys.
func TestKeysOfTheQueryInAnotherSpellingCannotBeJudged(t *testing.T) {
	for when, queries := range map[string]struct{ twins, plain []string }{
		`"sudo" in request.query`: {
			[]string{"Sudo=root", "[sudo]=root", "sudo]=root", "sudo[]=root", "%5Bsudo%5d=root", "?sudo=root", "sudo=me&SUDO=root"},
			[]string{"", "sudo=root", "sudoer=1", "x[sudo]=1", "x=sudo"},
		},
		`request.query.?state.orValue([]).exists(s, s == "all")`: {[]string{"State=all", "state[0]=all"}, []string{"state=All", "state=all&all=1", "ALL=1"}},
		`request.path == "/x" && "a" in request.headers`:         {nil, []string{"Sudo=root", "A=1"}},
	} {
		c := compile(t, when, nil)
		ask := func(query string) error {
			q := question(nil)
			q.Request.Target.Path = "/x?" + query
			_, err := c.Holds(q)
			return err
		}
		for _, query := range queries.twins {
			if err := ask(query); err == nil || !strings.Contains(err.Error(), "spelling") {
				t.Errorf("%s: %s: %v", when, query, err)
			}
		}
		for _, query := range queries.plain {
			if err := ask(query); err != nil {
				t.Errorf("%s: %s: %v", when, query, err)
			}
		}
	}
}

// So it is inside of an argument, whoever builds the request. What arguments are
// called is the service's business.
func TestMembersOfArgumentsInAnotherSpelling(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Params: []runtime.Param{
		{Name: "customer", Type: runtime.TypeObject}, {Name: "list", Type: runtime.TypeArray}, {Name: "List", Type: runtime.TypeArray},
	}}
	twin := map[string]any{"name": "x", "Name": "root"}
	for when, args := range map[string]runtime.Args{
		`has(args.customer.name) && args.customer.name == "root"`:                   {"customer": twin},
		`args.?customer.?name.orValue("") == "root"`:                                {"customer": map[string]any{"Name": "root"}},
		`args.?list.orValue([]).exists(e, e.?name.orValue("") == "root")`:           {"list": []any{twin}},
		`args.customer.inner.name == "root"`:                                        {"customer": map[string]any{"inner": twin}},
		`has(args.customer) && has(args.customer.name) && args.customer.name == ""`: {"customer": twin},
	} {
		for _, schema := range []*runtime.Action{nil, action} {
			c := compile(t, when, schema)
			for _, raw := range []bool{true, false} {
				q, other := question(args), question(runtime.Args{"list": []any{}, "List": []any{twin}, "customer": map[string]any{"x": twin}})
				if !raw {
					q.Request.Raw, other.Request.Raw = nil, nil
				}
				if holds, err := c.Holds(q); err == nil || !strings.Contains(err.Error(), "spelling") {
					t.Errorf("%s: %t %v", when, holds, err)
				}
				if _, err := c.Holds(other); err != nil && strings.Contains(err.Error(), "spelling") {
					t.Errorf("%s of another: %v", when, err)
				}
			}
		}
	}
	computed := compile(t, `args["cust" + "omer"].name == "x"`, nil)
	if holds, err := computed.Holds(question(runtime.Args{"customer": twin})); err == nil {
		t.Errorf("by a name that is computed: %t", holds)
	}
}

// What is looked for does not grow with the square of what a program sends or the
// author writes.
func TestSpellingsAreLookedForInTime(t *testing.T) {
	long := `request.body.items` + strings.Repeat(`.filter(i, i.a || i.b)`, 20) + `.exists(i, i.c)`
	begun := time.Now()
	c := compile(t, long, nil)
	document := map[string]any{strings.Repeat("[", 1<<20): 1, "items": []any{}}
	for range 1000 {
		document[strings.Repeat("[", len(document))] = 1
	}
	q := question(nil)
	q.Request.Document, q.Request.Parsed = document, true
	if holds, err := c.Holds(q); err != nil || holds {
		t.Errorf("%t %v", holds, err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
