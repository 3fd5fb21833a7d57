package worker_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every built-in is called with what it does not want: as this, as arguments, as what
// is thrown meanwhile. Whatever it then says is of the language, and of places of the
// script; none ends the script, or sees more than it.
func TestNoBuiltInSpeaksOfTheEngine(t *testing.T) {
	text, err := os.ReadFile("testdata/builtins.js")
	if err != nil {
		t.Fatal(err)
	}
	lines := strconv.Itoa(strings.Count(string(text), "\n"))
	of := func(name string) *verdict {
		source := strings.NewReplacer("BASE", strconv.Quote(name), "LINES", lines).Replace(string(text))
		return execute(t, source, time.Minute)
	}
	first := of("")
	names, ok := first.value.([]any)
	if !ok || len(names) < 40 {
		t.Fatalf("built-ins %v: %+v", names, first.failure)
	}
	work := make(chan string)
	var two sync.WaitGroup
	for range 2 {
		two.Go(func() {
			for name := range work {
				told(t, name, of(name))
			}
		})
	}
	for _, name := range names {
		work <- name.(string)
	}
	close(work)
	two.Wait()
}

func told(t *testing.T, name string, v *verdict) {
	var told struct{ Said, Places []string }
	text, _ := json.Marshal(v.value)
	if err := json.Unmarshal(text, &told); v.outcome != "harmless" || err != nil || len(told.Said) < 3 {
		t.Errorf("%s: %s %+v, and said %.200s", name, v.outcome, v.failure, text)
	}
	for _, said := range told.Said {
		if word := hostWords.FindString(said); word != "" {
			t.Errorf("%s speaks of the host: %q in %.300q", name, word, said)
		}
	}
	for _, place := range told.Places {
		if place != "" && !strings.HasSuffix(place, " (here)") {
			t.Errorf("%s has a stack with %q", name, place)
		}
	}
}
