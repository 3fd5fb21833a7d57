package graphql

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestDocuments(t *testing.T) {
	for document, want := range map[string]string{
		"{a}": "query", "\ufeff query{a}": "query", "query Q{a}": "query Q", "mutation M @d{a}": "mutation M", "subscription{a}": "subscription",
		"query A{a}#}\nmutation B{b}": "query A, mutation B", "query Q($a: [I!] = [{b: 1}, 2.5e1]) {a(b: $a, c: \"\\\"}\")}": "query Q",
		"fragment F on T {a} {b ...F}": "query", "\"say\" query Q{a}": "query Q", "{a(b: \"\"\"x \\\"\"\" }\"\"\")}": "query", "{a(b: \"\")}": "query",
		"query query{a}": "query query", "{mutation {a}}": "query", "fragment mutation on T{a} query{b}": "query", "{ __typename }": "query",

		"": "?", "#": "?", "query": "?", "query Q": "?", "{a": "?", "{a}}": "?", "{(}": "?", "{a]}": "?", "{a} {b}": "?", "{a} query Q{b}": "?", "query A{a} query A{b}": "?",
		"Query{a}": "?", "extend type T{a}": "?", "fragment F on T{a}": "?", "{a(b: \"\n\")}": "?", "{a(b: \"\\x\")}": "?", "{a(b: \"\"\")}": "?", "{a(b: 01)}": "?", "{a(b: 1a)}": "?",
		"{a\x00}": "?", "{a;}": "?", "{a%}": "?", "{ä}": "?", "\"d\" {a}": "?", "query Q: {a}": "?", "query Q(": "?", "query Q(]) {a}": "?", "{a: 1}": "?", "{a: {b}}": "?", "{...on {a}}": "?", "{a ..}": "?", "{a(b:'')}": "?",
		strings.Repeat("{a", 300) + strings.Repeat("}", 300): "?",
	} {
		parsed, ok := Parse(document)
		words := []string{}
		for _, op := range parsed.GetOperation("") {
			kind := map[OperationType]string{Query: "query", Mutation: "mutation", Subscription: "subscription"}[op.Type]
			words = append(words, strings.TrimSpace(kind+" "+op.Name))
		}
		got := strings.Join(words, ", ")
		if !ok {
			got = "?"
		}
		if got != want {
			t.Errorf("%.60q: got %s, want %s", document, got, want)
		}
	}
}

func TestTheRootFieldsOfWhatANameExecutes(t *testing.T) {
	for _, c := range []struct{ document, name, want string }{
		{"{a b}", "", "query: a b"}, {"{x: a @skip(if: true) {c} b(d: {e: 1})}", "", "query: a b"}, {"{a a}", "", "query: a a"},
		{"query A{a} mutation B{b}", "B", "mutation: b"}, {"query A{a} mutation B{b}", "", "query mutation: a b"}, {"query A{a}", "B", ""}, {"{a}", "A", ""},
		{"{a ... on T{b ...{c}}}", "", "query: a b c"}, {"{...F a} fragment F on T{b ...G} fragment G on T{c ...F}", "", "query: a b c"},
		{"query A{...F} subscription B{...F b} fragment F on T{a}", "", "query subscription: a b"},
		{"{...F}", "", "query: ?"}, {"{a ...F} fragment F on T{b ...G}", "", "query: ?"}, {"query A{a} query B{...F}", "A", "query: a"},
	} {
		d, ok := Parse(c.document)
		if !ok {
			t.Fatalf("%s is not read", c.document)
		}
		executed := d.GetOperation(c.name)
		var types []string
		for _, op := range executed {
			types = append(types, [...]string{Query: "query", Subscription: "subscription", Mutation: "mutation"}[op.Type])
		}
		fields, ok := d.RootFields(executed)
		if !ok {
			fields = []string{"?"}
		}
		got := strings.Join(types, " ") + ": " + strings.Join(fields, " ")
		if got == ": " {
			got = ""
		}
		if got != c.want {
			t.Errorf("%s of %q: got %s, want %s", c.document, c.name, got, c.want)
		}
	}
}

func TestTheFieldsAtAnyDepth(t *testing.T) {
	for document, want := range map[string]string{
		"{a b}": "a b", "{a{b{c}}d}": "a b c d", "{x: a(b: {c: 1}) @d {e: f}}": "a f", "{a{... on T{b{c}} ...{d}}}": "a b c d",
		"{a{...F}b} fragment F on T{c{...G}} fragment G on T{d{...F}}": "a b c d", "{...F} fragment F on T{a{b}}": "a b", "{a} fragment F on T{b}": "a",
		"query A{a{b}} query B{c{d}}": "a b c d", "{a{...F}}": "?", "{a{...F}} fragment F on T{...G}": "?",
	} {
		d, ok := Parse(document)
		if !ok {
			t.Fatalf("%s is not read", document)
		}
		fields, ok := d.AllFields(d.GetOperation(""))
		if !ok {
			fields = []string{"?"}
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s: got %s, want %s", document, got, want)
		}
	}
}

func TestRootFieldsOfTwoOperationsLeaveTheDocumentAsItIs(t *testing.T) {
	d, _ := Parse("query A{a b c} query B{d}")
	all, _ := d.RootFields(d.GetOperation(""))
	one, _ := d.RootFields(d.GetOperation("A"))
	if !slices.Equal(all, []string{"a", "b", "c", "d"}) || !slices.Equal(one, []string{"a", "b", "c"}) {
		t.Errorf("%q, then %q", all, one)
	}
}

func FuzzParse(f *testing.F) {
	for _, document := range []string{"{a}", "query Q($a: Int = 1) @d {a}", "mutation M{a} query Q{b}", "fragment F on T{a} {b}", "#}\n{a(b: \"\"\"\\\"\"\"\"\"\", c: \"\\\"\")}", "\ufeffsubscription{a}", "mutation{x:a@d(e:1){b}...F ...on T{c}...{d}}fragment F on T{...F e}"} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		parsed, ok := Parse(document)
		if !ok {
			return
		}
		if len(parsed.operations) == 0 {
			t.Fatal("accepted without an operation")
		}
		// Comments and commas mean nothing: with more of them it is the same document.
		again, ok := Parse(",#}{\n" + document + "\n# mutation{x}\r\n,")
		if !ok || !reflect.DeepEqual(parsed, again) {
			t.Fatalf("%v, then %v", parsed, again)
		}
		if _, ok := Parse(document + "}"); ok && !strings.Contains(document, "#") {
			t.Fatal("one bracket more is accepted")
		}
	})
}
