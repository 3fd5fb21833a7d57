//go:build unix

package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Where a trail refuses for another reason than a sink, status says which: health tells agents
// no paths.
func TestStatusSaysWhyATrailRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + p.URL + "\", mode: required}]}\n"})
	ended := k.Open(t, "serve")
	if err := ended.Trail().Event(t.Context(), record.Event{Kind: "test.had"}); err != nil {
		t.Fatal(err)
	}
	p.failing.Store(true)
	_ = ended.Trail().Event(t.Context(), record.Event{Kind: "test.lacked"})
	_ = ended.Close()
	p.failing.Store(false)
	file := filepath.Join(k.Dir, "audit", "serve", "00000001.jsonl")
	if err := errors.Join(os.Rename(file, file+".away"), os.Symlink(file, file)); err != nil {
		t.Fatal(err)
	}
	second := k.Open(t, "proxy")
	k.Serve(t, second, app.ServeOptions{Listen: "127.0.0.1:0", State: true})
	said := func() string {
		for _, r := range k.App.Proxies() {
			if r.Slot == second.Trail().Slot() {
				return r.Trail
			}
		}
		return "it is not there"
	}
	apptest.Within(t, soon, "the state to name the file", func() bool { return strings.Contains(said(), file) })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, time.Minute, "the state to say that it is well", func() bool { return said() == "" })
}
