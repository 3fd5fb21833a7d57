package app

import (
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// TokenInfo is a token without what makes it one, as people and programs see it.
type TokenInfo struct {
	ID      string          `json:"id"`
	Tenant  runtime.Tenant  `json:"tenant"`
	Agent   string          `json:"agent"`
	Run     string          `json:"run,omitempty"`
	Scopes  []runtime.Scope `json:"scopes"`
	Roles   []string        `json:"roles,omitempty"`
	Groups  []string        `json:"groups,omitempty"`
	Creator string          `json:"creator"`
	Created time.Time       `json:"created"`
	Expires time.Time       `json:"expires"`
	Revoked *time.Time      `json:"revoked,omitempty"`
	State   string          `json:"state"` // valid | expired | revoked
}

// Shown is how a token stands now.
func (a *App) Shown(t Token) TokenInfo {
	info := TokenInfo{t.ID, t.Tenant, t.Agent, t.Run, t.Scopes, t.Roles, t.Groups, t.Creator, t.Created, t.Expires, nil, "valid"}
	switch {
	case !t.Revoked.IsZero():
		info.State, info.Revoked = "revoked", &t.Revoked
	case !a.o.Clock().Before(t.Expires):
		info.State = "expired"
	}
	return info
}
