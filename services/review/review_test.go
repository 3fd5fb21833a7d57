package review_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/review"
)

// parsed is a service with these lines behind its head.
func parsed(t *testing.T, lines string) *services.Service {
	t.Helper()
	s, err := services.Parse("notes.yaml", []byte("name: notes\nversion: 1.0.0\nbase_url: https://notes.example\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A key that is linked by an alias is this service's.
func TestAReviewNamesTheAliases(t *testing.T) {
	t.Parallel()
	s := parsed(t, "aliases: [jot, pad]\nactions: {list: {method: GET, path: /notes}}\n")
	if got := review.Of(s, nil, [32]byte{}).Text(); !strings.HasPrefix(got, "aliases  jot, pad: kimbap link takes these for it too\n") {
		t.Errorf("got %s", got)
	}
}

// What a file takes out, or moves aside, is judged by its catch-alls: that is milder as
// much as a lower risk is.
func TestAReviewNamesWhatBecameMilder(t *testing.T) {
	t.Parallel()
	const all = "  all: {method: [GET, POST, DELETE], path: /**, risk: {level: low}}\n"
	const key = "  create-key: {method: POST, path: \"/keys/{id}\", risk: {level: critical, grants_access: true}}\n"
	match := func(action, conditions string) string {
		return strings.Replace(action, "risk:", "match: "+conditions+", risk:", 1)
	}
	for _, c := range []struct{ name, old, now, want string }{
		{"as it was", key, key + all, ""},
		{"another word for a hole", key, strings.Replace(key, "{id}", "{key_id}", 1), ""},
		{"another name", key, strings.Replace(key, "create-key", "new-key", 1), ""},
		{"lower", key, strings.Replace(key, "critical, grants_access: true", "low", 1), "lower    create-key has a lower risk than before\n"},
		{"no access", key, strings.Replace(key, ", grants_access: true", "", 1), "lower    create-key no longer counts as handing out access\n"},
		{"another name and lower", key, "  new-key: {method: POST, path: \"/keys/{id}\"}\n", "gone     create-key is away, or takes other requests than before: the rest of the file judges those\n"},
		{"gone", key, all, "gone     create-key is away, or takes other requests than before: the rest of the file judges those\n"},
		{"another path", key, strings.Replace(key, "/keys/", "/key/", 1) + all, "gone     create-key is away, or takes other requests than before: the rest of the file judges those\n"},
		{"another method", key, strings.Replace(key, "POST", "PUT", 1) + all, "gone     create-key is away, or takes other requests than before: the rest of the file judges those\n"},
		{"only where the body has it", key, strings.Replace(key, "risk:", "match: {query: {new: \"*\"}}, risk:", 1) + all, "gone     create-key is away, or takes other requests than before: the rest of the file judges those\n"},
		{"a narrower one beside it", key, key + "  easy: {method: POST, path: \"/keys/{id:int}\", risk: {level: low}}\n", "lower    easy has a lower risk than what took its requests before\n"},
		{"one with a condition", key, key + "  easy: {method: POST, path: \"/keys/{id}\", match: {query: {a: \"1\"}}, risk: {level: low}}\n", "lower    easy has a lower risk than what took its requests before\n"},
		{"one more method", key + "  get-key: {method: GET, path: \"/keys/{id:int}\", risk: {level: low}}\n", key + "  get-key: {method: [GET, POST], path: \"/keys/{id:int}\", risk: {level: low}}\n", "lower    get-key has a lower risk than what took its requests before\n"},
		{"one that is as bad", key, key + "  same: {method: POST, path: \"/keys/{id:int}\", risk: {level: critical, grants_access: true}}\n", ""},
		{"more values", match(key, `{query: {a: "1"}}`), match(key, `{query: {a: "1|2"}}`), ""},
		{"fewer conditions", match(key, `{query: {a: "1", b: "*"}}`), match(key, `{query: {b: "*"}}`), ""},
		{"more fields", match(key, "{graphql: {type: mutation, fields: [addKey]}}"), match(key, "{graphql: {type: mutation, fields: [addKey, dropKey]}}"), ""},
		{"fewer values", match(key, `{query: {a: "1|2"}}`), match(key, `{query: {a: "1"}}`) + all, "gone     create-key is away, or takes other requests than before: the rest of the file judges those\n"},
		{"low ones", "  get: {method: GET, path: /x}\n", all, ""},
	} {
		got := review.Of(parsed(t, "actions:\n"+c.now), parsed(t, "actions:\n"+c.old), [32]byte{}).Text()
		if _, got, _ = strings.Cut(got, "replaces version 1.0.0\n"); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Of the hosts that the file no longer has nothing is judged milder: the key does not go there.
func TestAReviewComparesTheHostsThatStay(t *testing.T) {
	t.Parallel()
	const key = "actions:\n  drop: {method: DELETE, path: /notes, host: %s}\n"
	old := parsed(t, "hosts: [two.example]\n"+strings.Replace(key, "%s", "two.example", 1))
	gone := parsed(t, strings.Replace(key, "%s", "notes.example", 1))
	here := parsed(t, "hosts: [two.example]\n"+strings.Replace(key, "%s", "notes.example", 1))
	if got := review.Of(gone, old, [32]byte{}).Gone; got != nil {
		t.Errorf("of a host that is away: %q", got)
	}
	if got := review.Of(here, old, [32]byte{}).Gone; len(got) != 1 || got[0] != "drop" {
		t.Errorf("of a host that stays: %q", got)
	}
}

// An update by which the key goes where others can read it, or by which less is checked,
// says so.
func TestAReviewNamesCleartextAndWhatIsCheckedNoMore(t *testing.T) {
	t.Parallel()
	const rest = "auth: {type: bearer, credential_ref: notes.token}\nactions: {list: {method: GET, path: /notes}}\n"
	const clear = "allow_http: true\nhosts: [\"http://notes.example:8080\", \"http://127.0.0.1:9\"]\n"
	const says = "http     the key may go over http to notes.example:8080: whoever is on the way can read it\n"
	strict, open := parsed(t, "strict: true\n"+rest), parsed(t, clear+rest)
	if got := review.Of(open, strict, [32]byte{}).Text(); !strings.Contains(got, says) ||
		!strings.Contains(got, "new      notes.example:8080 gets the key over http, which it did not before\n") ||
		!strings.Contains(got, "lower    strict is away: ") {
		t.Errorf("got %s", got)
	}
	if got := review.Of(open, open, [32]byte{}).Text(); !strings.Contains(got, says) || strings.Contains(got, "not before") || strings.Contains(got, "strict") {
		t.Errorf("as it was: %s", got)
	}
	if got := review.Of(strict, open, [32]byte{}).Text(); strings.Contains(got, "http ") || strings.Contains(got, "strict") {
		t.Errorf("the other way round: %s", got)
	}
}
