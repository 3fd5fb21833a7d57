package connector

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Grant is what a provider has granted, as the vault keeps it. It holds secrets and prints
// none.
type Grant struct {
	Kind         int       `json:"kimbap_oauth"` // version of this form; first, so that a grant is known by its beginning
	TokenURL     string    `json:"token_url"`
	RevokeURL    string    `json:"revoke_url,omitempty"`
	ClientID     string    `json:"client_id"`
	ClientSecret string    `json:"client_secret,omitempty"` // "": a public client
	ClientAuth   string    `json:"client_auth,omitempty"`   // basic | post, how the secret is shown
	RefreshToken string    `json:"refresh_token,omitempty"` // "": the access token is all there is
	AccessToken  string    `json:"access_token,omitempty"`
	Obtained     time.Time `json:"obtained,omitzero"`
	Expires      time.Time `json:"expires,omitzero"` // of the access token; zero: the provider has not said
	Scopes       []string  `json:"scopes,omitempty"`
	Resource     string    `json:"resource,omitempty"`       // that each token is asked for (RFC 8707); "": the provider decides
	Previous     string    `json:"previous_token,omitempty"` // the access token of before, which an API may take still
	PreviousEnds time.Time `json:"previous_ends,omitzero"`   // zero: the provider has not said
	Spent        bool      `json:"spent,omitempty"`          // an API has refused the access token before its end
	Paused       pause     `json:"paused,omitzero"`          // the provider has failed, and is left alone
	Over         string    `json:"over,omitempty"`           // why the provider gives no more tokens; "": it does

	// Of a client itself.
	Type   string            `json:"grant_type,omitempty"` // client_credentials; "": a person has signed in
	Params map[string]string `json:"params,omitempty"`     // that go with each question for a token
	named  []string          // the scopes that the provider has named; those of above are asked for again
}

// mark is the name of the first field of every grant, also of a form that this kimbap does not
// know. The line break that Seal writes before it keeps a grant that is taken for a token out
// of every header field.
const mark = `"kimbap_oauth"`

// form is the version of what Seal writes.
const form = 1

// String implements [fmt.Stringer]: nothing of a grant is printed.
func (g Grant) String() string { return "[an OAuth grant]" }

// GoString implements [fmt.GoStringer].
func (g Grant) GoString() string { return g.String() }

// longestGrant is what the vault takes, in bytes; one that it refuses is lost with this process.
const longestGrant = 1 << 16

// Seal is the grant as the vault keeps it. Of one that would be too long, what is only good to
// have stays out.
func (g *Grant) Seal() (runtime.Secret, error) {
	kept := *g
	kept.Kind = form
	text, err := kept.text()
	if err == nil && len(text) > longestGrant {
		kept.Previous = ""
		text, err = kept.text()
	}
	if err == nil && len(text) > longestGrant && !g.ofClient() { // which asks for them again
		kept.Scopes = nil
		text, err = kept.text()
	}
	return runtime.NewSecret(text), err
}

// text is the grant in JSON, in which no character is longer than it must be.
func (g *Grant) text() (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(g)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// alike reports whether two values are one grant but for what is noted of it without its provider.
func alike(a, b runtime.Secret) bool {
	texts := [2]string{}
	for i, value := range []runtime.Secret{a, b} {
		g, err := open(value)
		if err != nil {
			return false
		}
		g.Spent, g.Paused = false, pause{}
		if texts[i], err = g.text(); err != nil {
			return false
		}
	}
	return texts[0] == texts[1]
}

// errForm is of a grant that this kimbap cannot use. It quotes nothing.
var errForm = errors.New("the grant is not of a form that this kimbap knows")

// open reads a grant.
func open(value runtime.Secret) (*Grant, error) {
	var g Grant
	if json.Unmarshal([]byte(value.Reveal()), &g) != nil || g.Kind != form || g.Type != "" && !g.ofClient() {
		return nil, errForm
	}
	if !guarded(g.TokenURL) || g.RevokeURL != "" && !guarded(g.RevokeURL) {
		return nil, errPlain
	}
	return &g, nil
}

// errPlain is of a grant that would send its secrets in the clear, as an import may bring.
var errPlain = errors.New("its provider is not reached over TLS")

// guarded reports whether an address is reached over TLS, or is this machine's.
func guarded(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	own := u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost") || err == nil && at.Unmap().IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && own
}

// IsGrant reports whether a value is a grant. One that cannot be read is one too: it goes
// nowhere, instead of to an API as it is.
func IsGrant(value runtime.Secret) bool {
	const blank = " \t\r\n"
	inner, object := strings.CutPrefix(strings.TrimLeft(value.Reveal(), blank), "{")
	return object && strings.HasPrefix(strings.TrimLeft(inner, blank), mark)
}

// Parts are the secrets of a value that is a grant, for whoever looks for them in other texts;
// none for any other value.
func Parts(value runtime.Secret) []runtime.Secret {
	if !IsGrant(value) {
		return nil
	}
	g, err := open(value)
	if err != nil {
		return nil // then all of it is one
	}
	return g.secrets()
}

// secrets are the parts that nobody may see.
func (g *Grant) secrets() (out []runtime.Secret) {
	for _, part := range []string{g.AccessToken, g.RefreshToken, g.ClientSecret, g.Previous} {
		if part != "" {
			out = append(out, runtime.NewSecret(part))
		}
	}
	return out
}

// Ends is when a value that is a grant gives no token any more, as its provider gave nothing to renew
// it with; zero for one that is renewed or has no end, and for any other value.
func Ends(value runtime.Secret) time.Time {
	if !IsGrant(value) {
		return time.Time{}
	}
	g, err := open(value)
	if err != nil {
		return time.Time{}
	}
	return g.ends()
}

func (g *Grant) ends() time.Time {
	if g.renews() {
		return time.Time{}
	}
	return g.Expires
}

// good reports whether the access token can be used at a moment, with some time to spare: so
// much at most, or that part of its life.
func (g *Grant) good(now time.Time, spare time.Duration, part int) bool {
	switch {
	case g.Expires.IsZero():
		return g.AccessToken != ""
	case now.Add(early).Before(g.Obtained): // the clock was set back since: it says nothing of the token's end
		return false
	}
	spare = min(spare, g.Expires.Sub(g.Obtained)/time.Duration(part))
	return g.AccessToken != "" && now.Add(spare).Before(g.Expires)
}

// beside are the values that an answer of an API is searched for beside the access token: the
// one of before while it may be good, and the others where the API is on the host that they are
// sent to.
func (g *Grant) beside(now time.Time, authorities []string) (out []runtime.Secret) {
	add := func(part string) {
		if part != "" {
			out = append(out, runtime.NewSecret(part))
		}
	}
	if g.PreviousEnds.IsZero() || now.Before(g.PreviousEnds) {
		add(g.Previous)
	}
	u, err := url.Parse(g.TokenURL)
	if err == nil && slices.ContainsFunc(authorities, func(a string) bool {
		host, _ := runtime.SplitAuthority(a)
		return strings.EqualFold(strings.Trim(host, "[]"), u.Hostname())
	}) {
		add(g.RefreshToken)
		add(g.ClientSecret)
	}
	return out
}

// parts are the names that the secrets of a grant have in JSON and in forms (RFC 6749).
var parts = []string{"client_secret", "refresh_token"}

// IsToken reports whether a value that is no grant can be an access token. A grant in a form that
// is not known, or a client's file, is none: it would show an API what only the provider may see.
// Tokens are of RFC 6750 section 2.1, and of what providers put into them besides.
func IsToken(value runtime.Secret) bool {
	text := strings.Trim(value.Reveal(), " \t") // what HTTP strips from a value that was stored so once
	return bearer(text) && !strings.ContainsAny(text, "{}[]&") &&
		!slices.ContainsFunc(parts, func(name string) bool { return strings.Contains(text, name) })
}
