package mask_test

import (
	"context"
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/mask"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// stored is a vault with one value, of two words; or one that cannot tell.
type stored struct {
	value string
	fault error
}

func (s stored) Known(context.Context, runtime.Tenant) (func(word string) bool, error) {
	if s.fault != nil || s.value == "" {
		return nil, s.fault
	}
	return func(word string) bool {
		for _, one := range strings.Fields(s.value) {
			if word == one {
				return true
			}
		}
		return word == s.value
	}, nil
}

func (s stored) Without(_ context.Context, _ runtime.Tenant, hide func(value runtime.Secret, text string) string) (func(text string) string, error) {
	return func(text string) string { return hide(runtime.NewSecret(s.value), text) }, nil
}

const value = "tok-8f3a91c2d4 pass-77ab01ff22"

func TestAStoredValueIsTakenOut(t *testing.T) {
	hide, err := mask.Masks{Vault: stored{value: value}, Forms: new(scrub.Cache)}.Of(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	for about, text := range map[string]string{
		"as it is":            "say " + value + ", and again " + value,
		"one word of it":      "the key tok-8f3a91c2d4 is mine",
		"behind an escape":    `line\ntok-8f3a91c2d4 and \x1btok-8f3a91c2d4`,
		"as base64":           base64.StdEncoding.EncodeToString([]byte(value)),
		"beside its own word": "tok-8f3a91c2d4 " + value,
	} {
		got := hide(text)
		if strings.Contains(got, "tok-8f3a91c2d4") || strings.Contains(got, "pass-77ab01ff22") || !strings.Contains(got, "[stored credential]") {
			t.Errorf("%s: %q", about, got)
		}
	}
	if got := hide("nothing of ours"); got != "nothing of ours" {
		t.Errorf("changed to %q", got)
	}
}

func TestArgumentsAreMaskedInACopy(t *testing.T) {
	hide, err := mask.Masks{Vault: stored{value: value}, Forms: new(scrub.Cache)}.Of(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	args := runtime.Args{"text": value, "list": []any{"a", map[string]any{value: 1.5}}, "n": 2}
	want := runtime.Args{"text": "[stored credential]", "list": []any{"a", map[string]any{"[stored credential]": 1.5}}, "n": 2}
	if got := mask.Args(hide, args); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if args["text"] != value {
		t.Error("the request was changed")
	}
	if mask.Args(hide, nil) != nil {
		t.Error("no arguments became some")
	}
}

// A request may call a member what its name is masked to, beside the one that is masked.
func TestMaskedNamesStayApart(t *testing.T) {
	hide, err := mask.Masks{Vault: stored{value: value}, Forms: new(scrub.Cache)}.Of(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		got := mask.Args(hide, runtime.Args{value: "one", "[stored credential]": "two", "[stored credential] (2)": "three"})
		want := runtime.Args{"[stored credential]": "two", "[stored credential] (2)": "three", "[stored credential] (3)": "one"}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v", got)
		}
	}
}

func TestAVaultThatCannotTellSaysSo(t *testing.T) {
	locked := errors.New("locked")
	if _, err := (mask.Masks{Vault: stored{fault: locked}, Forms: new(scrub.Cache)}).Of(t.Context(), "acme"); !errors.Is(err, locked) {
		t.Error(err)
	}
	hide, err := mask.Masks{Vault: stored{}, Forms: new(scrub.Cache)}.Of(t.Context(), "acme")
	if err != nil || hide("text") != "text" {
		t.Errorf("with nothing stored: %v", err)
	}
}
