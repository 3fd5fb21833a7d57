package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// shelf is an agent with many services.
type shelf struct {
	Agent
	services int
}

func (s shelf) Services(context.Context, runtime.Principal) ([]Item, error) {
	out := make([]Item, s.services)
	for i := range out {
		out[i] = Item{Key: strconv.Itoa(i), Body: i}
	}
	return out, nil
}

// A page has the most that the document says of it, however many are asked for, and leads on
// from there. The schema takes what the page takes.
func TestAHighLimitIsTakenForTheMost(t *testing.T) {
	client, base := open(t, false, Options{Agent: shelf{services: 2*maxPageLimit + 1}})
	for limit, want := range map[int]int{1: 1, maxPageLimit: maxPageLimit, maxPageLimit + 1: maxPageLimit, 1e9: maxPageLimit} {
		status, text := ask(t, client, "GET", fmt.Sprintf("%s/v1/services?limit=%d", base, limit), "")
		var page struct {
			Items []int
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil || status != 200 || len(page.Items) != want || page.Next == "" {
			t.Fatalf("limit %d: %d, %d items, next %q, %v", limit, status, len(page.Items), page.Next, err)
		}
		_, text = ask(t, client, "GET", base+"/v1/services?limit=1&cursor="+page.Next, "")
		if !strings.HasPrefix(text, fmt.Sprintf(`{"items":[%d]`, want)) {
			t.Errorf("limit %d: it goes on with %.40s", limit, text)
		}
	}
	d := parsed(t)
	for path, most := range map[string]int{"/v1/services": maxPageLimit, "/v1/tools/search": 100} {
		for _, p := range d.Paths[path]["get"].Parameters {
			p = d.resolved(p)
			if p["name"] != "limit" {
				continue
			}
			said, _ := p["description"].(string)
			if p["schema"].(map[string]any)["maximum"] != nil || !strings.Contains(said, fmt.Sprintf("at most %d, for which more is taken", most)) {
				t.Errorf("%s: %v", path, p)
			}
		}
	}
}
