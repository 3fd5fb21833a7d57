package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
)

// tokens lists those that open something, the rest below.
func (c *Console) tokens(w http.ResponseWriter, r *http.Request, v visit) error {
	all, err := c.o.Desk.Tokens(r.Context(), v.who)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b Token) int { return b.Created.Compare(a.Created) })
	var valid, ended []Token
	for _, t := range all {
		if t.Valid() {
			valid = append(valid, t)
		} else {
			ended = append(ended, t)
		}
	}
	return c.show(w, v, "tokens", view{Title: "Tokens", Tab: "tokens", Data: map[string]any{
		"Valid": valid, "Ended": ended[:min(len(ended), recent)], "Revoked": named(ended, r.URL.Query().Get("revoked")),
	}})
}

// named is that of some tokens which an address names; nil for none.
func named(tokens []Token, id string) *Token {
	if at := slices.IndexFunc(tokens, func(t Token) bool { return t.ID == id }); at >= 0 {
		return &tokens[at]
	}
	return nil
}

// askRevoke shows the token that would be revoked, and asks: there is no way back.
func (c *Console) askRevoke(w http.ResponseWriter, r *http.Request, v visit) error {
	all, err := c.o.Desk.Tokens(r.Context(), v.who)
	if err != nil {
		return err
	}
	t := named(all, r.PathValue("id"))
	if t == nil || !t.Valid() {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no valid token of this id", Hint: "the list of tokens says which are valid"}
	}
	return c.show(w, v, "revoke", view{Title: "Revoke a token", Tab: "tokens", Data: map[string]any{"T": t, "Own": t.ID == v.who.TokenID}})
}

// revoke ends a token in every surface.
func (c *Console) revoke(w http.ResponseWriter, r *http.Request, v visit) error {
	if err := c.o.Desk.Revoke(r.Context(), v.who, r.PathValue("id")); err != nil {
		return err
	}
	http.Redirect(w, r, c.o.Base+"tokens?revoked="+url.QueryEscape(r.PathValue("id")), http.StatusSeeOther)
	return nil
}
