package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Skip is one operation that was left out.
type Skip struct {
	Operation string `json:"operation"` // "GET /pets/{id}"
	Reason    string `json:"reason"`
}

// Result is what became of a document.
type Result struct {
	Name     string
	YAML     []byte // the service file
	Imported int
	Total    int // operations that were asked for
	Skipped  []Skip
	Grants   []string // names of the actions taken to hand out access
	Notes    []string // what else a person should know
}

// Report says in a few lines what was imported and what was not, and why; the
// reasons that most operations share come first.
func (r *Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d operations imported", r.Imported, r.Total)
	if len(r.Skipped) > 0 {
		fmt.Fprintf(&b, ", %d skipped:", len(r.Skipped))
	}
	b.WriteString("\n")
	byReason := map[string][]string{}
	for _, s := range r.Skipped {
		byReason[s.Reason] = append(byReason[s.Reason], s.Operation)
	}
	reasons := slices.SortedFunc(maps.Keys(byReason), func(x, y string) int {
		return cmp.Or(len(byReason[y])-len(byReason[x]), cmp.Compare(x, y))
	})
	for _, reason := range reasons {
		list := byReason[reason]
		fmt.Fprintf(&b, "  %d × %s: %s\n", len(list), reason, few(list, 3))
	}
	if len(r.Grants) > 0 {
		fmt.Fprintf(&b, "%d taken to hand out lasting access (critical): %s\n", len(r.Grants), few(r.Grants, 5))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func few(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
