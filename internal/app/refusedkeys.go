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

// renewFix is what to do about a sign-in that is not renewed: a provider that did not answer is
// asked again by itself.
const renewFix = "if that lasts: kimbap link "

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

// notRenewed is what the record of a request holds whose sign-in gave no access token.
const notRenewed = `"reason":"` + string(runtime.ReasonOAuthRefreshFailed) + `"`

// unrenewed are the services whose sign-in gave no new access token when one was last wanted, by
// name: their provider refuses the client, or does not answer. One that was linked anew since is
// left out, and so is a grant that is over.
func (a *App) unrenewed(ctx context.Context) ([]string, error) {
	began := a.o.Clock().Add(-refusedAge)
	failures, err := a.recent(ctx, RecordQuery{Code: string(runtime.CodeUpstream), Text: notRenewed, Since: began})
	if err != nil || len(failures) == 0 {
		return nil, err
	}
	stored, err := a.vault.List(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	linked := map[string]time.Time{}
	for _, s := range stored {
		linked[s.Name] = s.Created
	}
	asked := map[string]bool{}
	var out []string
	for _, r := range failures {
		name, _, _ := strings.Cut(string(r.Action), ".")
		s, installed := a.Services().Service(name)
		if !installed || s.Auth == nil || s.Auth.OAuth == nil || asked[name] {
			continue
		}
		asked[name] = true
		last, err := a.recent(ctx, RecordQuery{Kind: string(record.KindOutcome), Text: storedUse, Action: runtime.Glob(name + ".*"), Since: r.Time, Limit: 1})
		if err != nil {
			return nil, err
		}
		since, there := linked[s.Auth.Ref]
		if there && since.Before(r.Time) && (len(last) == 0 || !last[0].Time.After(r.Time)) && !a.SignIns().Over(ctx, a.tenant, s) {
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
