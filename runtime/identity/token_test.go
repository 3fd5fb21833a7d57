package identity

import (
	"strings"
	"testing"
)

func TestMessagesHaveNoTokens(t *testing.T) {
	good := newToken().Reveal()
	typo := good[:len(good)-1] + "_"
	for text, want := range map[string]string{
		"":                               "",
		"no token here":                  "no token here",
		"there is no approval " + good:   "there is no approval kmb_…",
		good + " and " + good:            "kmb_… and kmb_…",
		`"` + good + `x": who?`:          `"kmb_…": who?`, // a longer one is no less of a secret
		"cut off: " + good[:len(good)-1]: "cut off: kmb_…",
		"mistyped: " + typo:              "mistyped: kmb_…_",
		"it begins with kmb_, as all":    "it begins with kmb_, as all",
		"kmb_kmb_" + good[len("kmb_"):]:  "kmb_kmb_…",
	} {
		if got := WithoutTokens(text); got != want {
			t.Errorf("a message of %d bytes became %q, want %q", len(text), got, want)
		}
	}
	if !IsToken(good) || !IsToken(typo) || IsToken("tok_06h1m4vnfh9c43") || IsToken("") {
		t.Error("a token and its id are not told apart")
	}
	if strings.Contains(WithoutTokens("x"+good), good[len("kmb_"):]) {
		t.Error("a token behind a letter is shown")
	}
}
