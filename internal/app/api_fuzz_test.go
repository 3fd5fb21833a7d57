package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// generator makes requests of what an OpenAPI document describes: mostly such as it
// allows, and some that it does not.
type generator struct {
	r        *rand.Rand
	document map[string]any
	pages    []string
}

// at follows "#/a/b".
func (g *generator) at(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	here := any(g.document)
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		here = here.(map[string]any)[part]
	}
	return here.(map[string]any)
}

func (g *generator) text() string {
	return []string{
		"", "x", "notes", "get-note", "notes.get-note", "apr_0", "tok_0", "*", "' OR 1=1 --", "../..", "%2e%2e", "\u202e\u0000", strings.Repeat("a", 3000), "1h", "-1s", "🙂", "null", "2026-01-31T08:00:00Z",
		fmt.Sprint(g.r.Int64()),
	}[g.r.IntN(19)]
}

// value is one of the schema or, now and then, of no schema.
func (g *generator) value(schema map[string]any, depth int) any {
	schema = g.at(schema)
	if g.r.IntN(8) == 0 || depth > 4 {
		return []any{nil, -1, 1e300, true, "x", []any{}, map[string]any{"": nil}}[g.r.IntN(7)]
	}
	if either, ok := schema["oneOf"].([]any); ok {
		return g.value(either[g.r.IntN(len(either))].(map[string]any), depth)
	}
	if closed, ok := schema["enum"].([]any); ok {
		return closed[g.r.IntN(len(closed))]
	}
	switch schema["type"] {
	case "integer", "number":
		return g.r.IntN(600) - 5
	case "boolean":
		return g.r.IntN(2) == 0
	case "array":
		item, _ := schema["items"].(map[string]any)
		out := []any{}
		for range g.r.IntN(4) {
			out = append(out, g.value(item, depth+1))
		}
		return out
	case "object":
		out := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) { // the same requests in every run
			p := properties[name]
			if name != "wait" && g.r.IntN(3) > 0 { // an hour is longer than a test
				out[name] = g.value(p.(map[string]any), depth+1)
			}
		}
		if len(properties) == 0 {
			out["id"] = g.r.IntN(9)
		}
		if g.r.IntN(12) == 0 {
			out[g.text()] = g.text()
		}
		return out
	}
	return g.text()
}

// request is one of a page.
func (g *generator) request(page string) (method, target, body string, headers []string) {
	method, path, _ := strings.Cut(page, " ")
	operation := g.document["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(method)].(map[string]any)
	query := url.Values{}
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		parameter := g.at(p.(map[string]any))
		name, schema := parameter["name"].(string), parameter["schema"].(map[string]any)
		switch value := fmt.Sprint(g.value(schema, 0)); {
		case parameter["in"] == "path":
			known := map[string]string{"service": "notes", "action": []string{"get-note", "create-note", "delete-note", "read-as"}[g.r.IntN(4)], "name": "spare", "id": "apr_1"}[name]
			if g.r.IntN(3) > 0 {
				value = known
			}
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		case parameter["in"] == "query" && g.r.IntN(3) == 0:
			query.Set(name, value)
		case parameter["in"] == "header" && g.r.IntN(3) == 0:
			headers = append(headers, name, strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return '_'
				}
				return r
			}, value))
		}
	}
	if g.r.IntN(20) == 0 {
		query.Set(g.text(), g.text())
	}
	if target = path; len(query) > 0 {
		target += "?" + query.Encode()
	}
	if content, ok := operation["requestBody"].(map[string]any); ok {
		for media, c := range content["content"].(map[string]any) {
			data, _ := json.Marshal(g.value(c.(map[string]any)["schema"].(map[string]any), 0))
			body, headers = string(data), append(headers, "Content-Type", media)
			if g.r.IntN(10) == 0 {
				body = body[:g.r.IntN(len(body)+1)]
			}
		}
	}
	return method, target, body, headers
}

// Whatever is asked of the pages that the API describes is answered in time, as the
// description says, and never as a fault of kimbap's own.
func TestGeneratedRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\nexec: {timeout: 1s}\n", Scripts: apptest.Worker(t)})
	c := newAPI(t, k)
	c.base = k.ServeAPI(t, app.APIOptions{Proxy: true}) // with every page there is
	c.client.Timeout = 20 * time.Second
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	agent, _ := tokenOf(t, k, app.TokenGrant{Scopes: []string{"notes.get-*"}})
	const seed = 20261121
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), pages: described(t, c)}
	if err := json.Unmarshal([]byte(c.ask(t, "", "GET", "/openapi.json", "").Body), &g.document); err != nil {
		t.Fatal(err)
	}
	d := describedBy(t, c)
	seen, answered := map[string]int{}, map[int]int{}
	scripts := 0
	for i := range 1500 {
		page := g.pages[g.r.IntN(len(g.pages))]
		if page == "POST /v1/exec" {
			if scripts++; scripts > 10 {
				continue // each is a process
			}
		}
		method, target, body, headers := g.request(page)
		who := []string{admin, agent}[i%2]
		got := c.ask(t, who, method, target, body, headers...)
		seen[page]++
		answered[got.Status]++
		if got.Status >= 500 && !(got.Status == 502 && strings.Contains(got.Body, `"upstream`)) {
			t.Errorf("%s %s %.300s\n%d %s", method, target, body, got.Status, got.Body)
		}
		if got.Status >= 400 && got.Status != 503 {
			got.problem(t)
		}
		if err := d.answers(page, got); err != nil {
			t.Errorf("%s %s %.300s\n%d %.300s is not as described: %v", method, target, body, got.Status, got.Body, err)
		}
	}
	if len(seen) < len(g.pages) || answered[200] < 100 {
		t.Errorf("%d of %d pages, answers %v", len(seen), len(g.pages), answered)
	}
	if got := c.ask(t, admin, "GET", "/readyz", ""); got.Status != 200 {
		t.Errorf("afterwards: %d %s", got.Status, got.Body)
	}
}
