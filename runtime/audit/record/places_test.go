package record_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
)

// A stored value is masked under any name and in any place, however long it is.
func TestStoredValuesAreMaskedInEveryPlace(t *testing.T) { // AU-006
	const phrase, word, number = "correct horse battery staple", "0123456789abcdef0123456789abcdef", "unrelated-77"
	long := strings.Repeat("Unusual-Value-77 ", 1200) // over a page, as a key of a service account
	shown := func(text string) func(r *runtime.Record) {
		return func(r *runtime.Record) { r.Args = runtime.Args{"page": text} }
	}
	said := func(text string) func(r *runtime.Record) {
		return func(r *runtime.Record) { r.Err = &runtime.Error{Code: runtime.CodeUpstream, Msg: text} }
	}
	for name, c := range map[string]struct {
		stored string
		change func(r *runtime.Record)
		leak   string
	}{
		"a long one in base64": {long, shown(base64.StdEncoding.EncodeToString([]byte(long))), base64.StdEncoding.EncodeToString([]byte(long))[:200]},
		"a long one in hex":    {long, shown(hex.EncodeToString([]byte(long))), hex.EncodeToString([]byte(long))[:200]},
		"one of 850 bytes":     {long[:850], shown(base64.RawURLEncoding.EncodeToString([]byte(long[:850]))), "VW51c3VhbC1WYWx1ZS03"},
		"a label of a host":    {word, func(r *runtime.Record) { r.Target.Authority = word + ".example.com:443" }, word},
		"a method":             {"Unusual-Value-77", func(r *runtime.Record) { r.Target.Method = "Unusual-Value-77" }, "Unusual"},
		"a name in the query":  {phrase, func(r *runtime.Record) { r.Query = runtime.Args{phrase: ""} }, "horse"},
		"a name, escaped":      {phrase, func(r *runtime.Record) { r.Args = runtime.Args{url.QueryEscape(phrase): ""} }, "horse"},
		"a message":            {phrase, said(phrase), "horse"},
		"a message, escaped":   {phrase, said(url.PathEscape(phrase)), "horse"},
		"a number in the path": {number, func(r *runtime.Record) {
			r.Args = runtime.Args{"key": json.Number("471100")}
			r.Target.Path = "/u/acme/471100/x"
		}, "471100"},
		"a truth in the path": {number, func(r *runtime.Record) {
			r.Args = runtime.Args{"key": true}
			r.Target.Path = "/u/acme/true/x"
		}, "acme/true"},
	} {
		r := audittest.Record("req_1")
		r.Action = action()
		c.change(r)
		if line, _ := written(t, holding(c.stored), r); strings.Contains(line, c.leak) || !strings.Contains(line, "***") {
			t.Errorf("%s: %.900s", name, line)
		}
	}
}

// Of credentials that begin alike the longer is masked as a whole, in whatever order they
// were opened.
func TestTheLongestCredentialIsMaskedFirst(t *testing.T) {
	for _, live := range [][]string{{"abcdefgh12", "abcdefgh12.rest-of-the-key"}, {"abcdefgh12.rest-of-the-key", "abcdefgh12"}} {
		e := holding()
		e.Secrets = func() []runtime.Secret {
			return []runtime.Secret{runtime.NewSecret(live[0]), runtime.NewSecret(live[1])}
		}
		r := audittest.Record("req_1")
		r.Target.Path = "/x/abcdefgh12.rest-of-the-key"
		if line, m := written(t, e, r); m["path"] != "/x/***" {
			t.Errorf("%q: %s", live, line)
		}
	}
}

// What holds no secret stays: a host while the vault is locked, a message with a word that is
// masked beside an escape of something else.
func TestWhatIsNoSecretStaysReadable(t *testing.T) {
	r := audittest.Record("req_1")
	r.Target.Authority = "generativelanguage.googleapis.com:443"
	r.Err = &runtime.Error{Code: runtime.CodeUpstream, Msg: "abcdefgh12 is no key of a+b"}
	if line, m := written(t, locked(), r); m["host"] != r.Target.Authority {
		t.Error(line)
	}
	if line, m := written(t, holding("abcdefgh12"), r); m["message"] != "*** is no key of a+b" || m["host"] != r.Target.Authority {
		t.Error(line)
	}
}
