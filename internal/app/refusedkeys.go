package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
)

// A program hears a service's own 401 and not that kimbap has a key in hand. `run`
// says so at its end; a proxy and a server have no end at which anybody looks.

// refusedAge is how long a key that a service refused is spoken of.
const refusedAge = 24 * time.Hour

// storedUse is what the record of a request with a stored key holds.
const storedUse = `"credential_used":"` + string(runtime.CredentialStored) + `"`

// refusedFix is what to do about it.
const refusedFix = "kimbap link "

// userFix is what to do about the user name that goes with a key: to link stores the key alone.
const userFix = "kimbap vault set "

// renewFix is what to do about a sign-in that is not renewed: a provider that did not answer is
// asked again by itself.
const renewFix = "if that lasts: kimbap link "

// notRenewed is what the record of a request holds whose sign-in gave no access token.
const notRenewed = `"reason":"` + string(runtime.ReasonOAuthRefreshFailed) + `"`

// notFetched is what the record of a request holds whose key was not to be had from its command.
const notFetched = `"reason":"` + string(runtime.ReasonReference) + `"`

// fetchFix is what to do about it.
const fetchFix = "run the command by hand, and sign in there: kimbap vault list"

// refusedKeys are the services that answered 401 to the key that is stored when it was
// last used, by name. One that was linked anew since is left out.
func (a *App) refusedKeys(ctx context.Context) ([]string, error) {
	q := RecordQuery{Kind: string(record.KindOutcome), Text: fmt.Sprintf(`"status":%d`, http.StatusUnauthorized)}
	return a.troubled(ctx, q, func(s *services.Service, r *Record) bool {
		return s.Auth != nil && strings.Contains(string(r.Line), storedUse)
	}, func(t *trouble) bool {
		return t.used != nil && t.used.Status == http.StatusUnauthorized && versionUsed(t.used.Line) == t.stored.Version
	})
}

// expiredKeys are the services whose stored key has expired, or the user name that goes with
// it, by name, and what to do about the first.
func (a *App) expiredKeys(ctx context.Context) (names []string, fix string) {
	if a.storeless != nil {
		return nil, ""
	}
	entries, _ := a.vault.List(ctx, a.tenant) // a store that cannot be read shows elsewhere
	expired := map[string]bool{}
	for _, e := range entries {
		expired[e.Name] = e.Expired(a.o.Clock())
	}
	fixes := map[string]string{}
	for _, s := range a.Services().Services() {
		if s.Auth == nil {
			continue
		}
		switch key, stored := expired[s.Auth.Ref]; {
		case key:
			fixes[s.Name] = refusedFix + s.Name
		case stored && expired[s.Auth.UsernameRef]:
			fixes[s.Name] = userFix + s.Auth.UsernameRef
		}
	}
	if len(fixes) == 0 {
		return nil, ""
	}
	names = slices.Sorted(maps.Keys(fixes))
	return names, fixes[names[0]]
}

// unrenewed are the services whose sign-in gave no new access token when one was last wanted, by
// name: their provider refuses the client, or does not answer. One that was linked anew since is
// left out, and so is a grant that is over.
func (a *App) unrenewed(ctx context.Context) ([]string, error) {
	signsIn := func(s *services.Service) bool { return s.Auth != nil && s.Auth.OAuth != nil }
	if !slices.ContainsFunc(a.Services().Services(), signsIn) { // as in most homes
		return nil, nil
	}
	q := RecordQuery{Code: string(runtime.CodeUpstream), Text: notRenewed}
	return a.troubled(ctx, q, func(s *services.Service, _ *Record) bool { return signsIn(s) }, func(t *trouble) bool {
		linked := t.stored.Version > 0 && t.stored.Created.Before(t.last.Time)
		return linked && (t.used == nil || !t.used.Time.After(t.last.Time)) && !a.SignIns().Over(ctx, a.tenant, t.service)
	})
}

// unfetched are the services whose key a command fetches that failed when it was last run, by
// name. One whose key was stored anew since is left out.
func (a *App) unfetched(ctx context.Context) ([]string, error) {
	q := RecordQuery{Code: string(runtime.CodeVaultLocked), Text: notFetched}
	return a.troubled(ctx, q, func(s *services.Service, _ *Record) bool { return s.Auth != nil }, func(t *trouble) bool {
		fetched := t.stored.Reference != nil && t.stored.Created.Before(t.last.Time)
		return fetched && (t.used == nil || !t.used.Time.After(t.last.Time))
	})
}

// trouble is a service that records of late tell of.
type trouble struct {
	service *services.Service
	last    *Record     // that tells of it
	used    *Record     // the last outcome with the stored key; nil: there was none
	stored  vault.Entry // the key, as it is now; the zero value: there is none
}

// troubled are the names of services that still have a trouble: a record of late tells of it and
// counts, and what was since does not end it.
func (a *App) troubled(ctx context.Context, q RecordQuery, counts func(*services.Service, *Record) bool, still func(*trouble) bool) ([]string, error) {
	q.Since = a.o.Clock().Add(-refusedAge)
	tell, err := a.recent(ctx, q)
	if err != nil || len(tell) == 0 {
		return nil, err
	}
	entries, err := a.vault.List(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	stored := map[string]vault.Entry{}
	for _, e := range entries {
		stored[e.Name] = e
	}
	asked := map[string]bool{}
	var out []string
	for _, r := range tell { // the newest first
		name, _, _ := strings.Cut(string(r.Action), ".")
		s, installed := a.Services().Service(name)
		if !installed || asked[name] || !counts(s, &r) {
			continue
		}
		asked[name] = true
		t := trouble{service: s, last: &r, stored: stored[s.Auth.Ref]}
		used, err := a.recent(ctx, RecordQuery{Kind: string(record.KindOutcome), Text: storedUse, Action: runtime.Glob(name + ".*"), Since: q.Since, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(used) > 0 {
			t.used = &used[0]
		}
		if still(&t) {
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
