package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// A program hears a service's own 401 and not that kimbap has a key in hand. `run`
// says so at its end; a proxy and a server have no end at which anybody looks.

// refusedAge is how long a key that a service refused is spoken of.
const refusedAge = 24 * time.Hour

// storedUse is what the record of a request with a stored key holds.
const storedUse = `"credential_used":"` + string(runtime.CredentialStored) + `"`

// refusedFix is what to do about it.
const refusedFix = "kimbap link "

// refusedKeys are the services that answered 401 to the key that is stored when it was
// last used, by name. One that was linked anew since is left out.
func (a *App) refusedKeys(ctx context.Context) ([]string, error) {
	began := a.o.Clock().Add(-refusedAge)
	refusals, err := a.recent(ctx, RecordQuery{Kind: string(record.KindOutcome), Text: fmt.Sprintf(`"status":%d`, http.StatusUnauthorized), Since: began})
	if err != nil || len(refusals) == 0 {
		return nil, err
	}
	stored, err := a.vault.List(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	versions := map[string]int{}
	for _, s := range stored {
		versions[s.Name] = s.Version
	}
	asked := map[string]bool{}
	var out []string
	for _, r := range refusals {
		name, _, _ := strings.Cut(string(r.Action), ".")
		s, installed := a.Services().Service(name)
		if !installed || s.Auth == nil || asked[name] || !strings.Contains(string(r.Line), storedUse) {
			continue
		}
		asked[name] = true
		last, err := a.recent(ctx, RecordQuery{Kind: string(record.KindOutcome), Text: storedUse, Action: runtime.Glob(name + ".*"), Since: began, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(last) > 0 && last[0].Status == http.StatusUnauthorized && versionUsed(last[0].Line) == versions[s.Auth.Ref] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// versionUsed is the version of the stored key that a record tells of, 0 for none.
func versionUsed(line []byte) int {
	var r struct {
		Version int `json:"credential_version"`
	}
	_ = json.Unmarshal(line, &r) // a record that was read from the trail
	return r.Version
}
