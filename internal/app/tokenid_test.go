package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// Who finds a token that leaked has the token and not its id. What they try with it may
// not write it down.
func TestATokenInThePlaceOfItsIDIsWrittenNowhere(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	token, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if revoked, err := k.App.RevokeToken(t.Context(), token.Reveal()); err != nil || revoked {
		t.Fatalf("revoked %v, %v", revoked, err)
	}
	if _, err := app.Identify(t.Context(), k.App, runtime.Caller{Token: token}); err != nil {
		t.Fatalf("the token is gone, so this test shows nothing: %v", err)
	}
	looked := 0
	err = filepath.WalkDir(filepath.Join(k.Dir, "audit"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		looked += strings.Count(string(text), "token.create")
		if strings.Contains(string(text), token.Reveal()) {
			t.Errorf("%s holds it", path)
		}
		return err
	})
	if err != nil || looked == 0 {
		t.Fatalf("%d records of its making, %v", looked, err)
	}
}
