package app

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// revocations are how many of them are looked at, the newest, and searching how long it is
// looked for them: a trail that its index is far behind of is read whole.
const (
	revocations = 10_000
	searching   = 5 * time.Second
)

// doctorRevived names tokens that are valid although the trail says that they were revoked: a
// database from a backup does not know. There is nothing to say where it finds none.
func (a *App) doctorRevived(ctx context.Context) (Finding, bool) {
	if a.storeless != nil {
		return Finding{}, false // said already
	}
	all, err := a.ListTokens(ctx)
	now := a.o.Clock()
	valid := slices.DeleteFunc(all, func(t Token) bool { return !t.Valid(now) })
	if err != nil || len(valid) == 0 {
		return Finding{}, false
	}
	bounded, cancel := context.WithTimeout(ctx, searching)
	defer cancel()
	records, err := a.SearchTrail(bounded, RecordQuery{Kind: string(record.KindEvent), Action: "token.revoke*", Limit: revocations})
	if err != nil {
		return Finding{}, false // the trail has a check of its own, or is too long for this one
	}
	revoked := map[string]int{}
	var everyone time.Time      // when all there were the last time
	nothing := map[string]int{} // by who asked: that came to nothing
	for _, r := range records {
		var said struct {
			Principal string
			Fields    struct{ Token, Result, Revoked string }
		}
		switch _ = json.Unmarshal(r.Line, &said); {
		case r.Action == "token.revoke" && said.Fields.Result == string(runtime.CodeInvalidInput): // it was not valid then
		case r.Action == "token.revoke" && said.Fields.Result != "":
			revoked[said.Fields.Token]-- // one of the others came to nothing, see [between]
		case r.Action == "token.revoke":
			revoked[said.Fields.Token]++
		case said.Fields.Result != "":
			if said.Fields.Revoked == "" {
				nothing[said.Principal]++ // the one before it, which comes next: the newest are first
			}
		case nothing[said.Principal] > 0:
			nothing[said.Principal]--
		case r.Time.After(everyone):
			everyone = r.Time
		}
	}
	var revived []string
	for _, t := range valid { // times of other machines are not compared
		if revoked[t.ID] > 0 || !a.Shares() && t.Created.Before(everyone) {
			revived = append(revived, t.ID)
		}
	}
	if len(revived) == 0 {
		return Finding{}, false
	}
	said, fix := "by the audit trail "+strings.Join(revived, ", ")+" was revoked, and the database, which may be an older copy, has it as valid", "kimbap token revoke "+revived[0]
	if len(revived) > 1 {
		said, fix = "by the audit trail "+strings.Join(revived, ", ")+" were revoked, and the database, which may be an older copy, has them as valid", fix+", and so each of the others"
	}
	return Finding{"tokens", "fail", said, fix}, true
}
