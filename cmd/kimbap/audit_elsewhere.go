package main

import (
	"context"
	"net/url"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

// recordsElsewhere searches the trail of a server, the newest first. It shows the
// tenant of the token; a question about others is refused there.
func recordsElsewhere(ctx context.Context, there *remote.Client, q app.RecordQuery, most int) ([]app.Record, error) {
	if q.Tenant == app.AllTenants {
		return nil, usage("leave --all-tenants out", "with --server the tenant is the token's")
	}
	query := url.Values{}
	for name, value := range map[string]string{
		"action": string(q.Action), "agent": string(q.Agent), "host": string(q.Host), "kind": q.Kind, "effect": q.Effect, "code": q.Code,
		"request": q.RequestID, "text": q.Text, "since": moment3339(q.Since), "until": moment3339(q.Until),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	items, err := there.List(ctx, "/v1/audit", query, most)
	var out []app.Record
	for _, item := range items {
		r, err := app.ParseRecord(item)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, err
}

func moment3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
