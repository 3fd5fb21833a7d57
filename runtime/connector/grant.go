package connector

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Grant is what a provider has granted, as the vault keeps it. It holds secrets and prints
// none: it has no String, and is shown to nobody.
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
	Over         string    `json:"over,omitempty"` // why the provider gives no more tokens; "": it does
}

// mark begins every grant. The line break keeps a grant that is taken for a token out of
// every header field.
const mark = "{\n \"kimbap_oauth\": 1,"

// Seal is the grant as the vault keeps it.
func (g *Grant) Seal() (runtime.Secret, error) {
	g.Kind = 1
	text, err := json.MarshalIndent(g, "", " ")
	return runtime.NewSecret(string(text)), err
}

// open reads a grant; false for a credential that is none.
func open(value runtime.Secret) (*Grant, bool, error) {
	text := value.Reveal()
	if !strings.HasPrefix(text, mark) {
		return nil, false, nil
	}
	var g Grant
	err := json.Unmarshal([]byte(text), &g)
	return &g, true, err
}

// IsGrant reports whether a value is a grant.
func IsGrant(value runtime.Secret) bool { return strings.HasPrefix(value.Reveal(), mark) }

// secrets are the parts that nobody may see.
func (g *Grant) secrets() (out []runtime.Secret) {
	for _, part := range []string{g.AccessToken, g.RefreshToken, g.ClientSecret} {
		if part != "" {
			out = append(out, runtime.NewSecret(part))
		}
	}
	return out
}

// good reports whether the access token can be used at a moment, with some time to spare: so
// much at most, or that part of its life.
func (g *Grant) good(now time.Time, spare time.Duration, part int) bool {
	if g.Expires.IsZero() {
		return g.AccessToken != ""
	}
	spare = min(spare, g.Expires.Sub(g.Obtained)/time.Duration(part))
	return g.AccessToken != "" && now.Add(spare).Before(g.Expires)
}
