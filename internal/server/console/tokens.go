package console

import (
	"net/http"
	"slices"
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
	return c.show(w, v, "tokens", view{Title: "Tokens", Tab: "tokens", Data: map[string]any{"Valid": valid, "Ended": ended[:min(len(ended), recent)]}})
}

// revoke ends a token in every surface.
func (c *Console) revoke(w http.ResponseWriter, r *http.Request, v visit) error {
	if err := c.o.Desk.Revoke(r.Context(), v.who, r.PathValue("id")); err != nil {
		return err
	}
	http.Redirect(w, r, c.o.Base+"tokens", http.StatusSeeOther)
	return nil
}
