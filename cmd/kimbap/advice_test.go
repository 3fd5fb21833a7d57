package main

import (
	"strings"
	"testing"
)

// A command of an advice is pasted as it stands: it must be for the home and the tenant
// that were named, and take the flags that it gets.
func TestCommandsOfAnAdviceNameHomeAndTenant(t *testing.T) {
	c := &cli{}
	newRoot(c)
	c.home = "a b"
	for advice, want := range map[string]string{
		"kimbap link notes":                                   "kimbap --home 'a b' link notes",
		"gh auth token | kimbap link github":                  "gh auth token | kimbap --home 'a b' link github",
		"correct it, then: kimbap service validate x":         "correct it, then: kimbap --home 'a b' service validate x",
		"kimbap approve pin; or wait: kimbap lock --for 8h":   "kimbap --home 'a b' approve pin; or wait: kimbap --home 'a b' lock --for 8h",
		"end them (kimbap --tenant x token revoke --all)":     "end them (kimbap --home 'a b' --tenant x token revoke --all)",
		`eval "$(kimbap env)"`:                                `eval "$(kimbap --home 'a b' env)"`,
		"it was asked: a program of kimbap run has it":        "it was asked: a program of kimbap run has it",
		"on its machine: kimbap serve --proxy":                "on its machine: kimbap serve --proxy",
		"or with a home elsewhere: kimbap daemon --home DIR":  "or with a home elsewhere: kimbap daemon --home DIR",
		"kimbap version":                                      "kimbap version",
		"choose another home: kimbap --home DIR":              "choose another home: kimbap --home DIR",
		"kimbap kept what was there":                          "kimbap kept what was there",
		"what it says: kimbap ca show --jq .fingerprint":      "what it says: kimbap --home 'a b' ca show --jq .fingerprint",
		"its own machine says: kimbap ca show --jq .":         "its own machine says: kimbap ca show --jq .",
		"they decide with: kimbap approve accept ID --as ada": "they decide with: kimbap --home 'a b' approve accept ID --as ada",
	} {
		if got := c.atHome(advice); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", advice, got, want)
		}
	}
	c.tenant = "a%c"
	for advice, want := range map[string]string{
		"kimbap link notes": "kimbap --home 'a b' --tenant a%c link notes",
		"end them (kimbap --tenant x token revoke --all), or: kimbap tenant remove x --force": "end them (kimbap --home 'a b' --tenant x token revoke --all), or: kimbap --home 'a b' tenant remove x --force",
		"kimbap doctor; or see kimbap vault rotate --tenant-key":                              "kimbap --home 'a b' doctor; or see kimbap --home 'a b' --tenant a%c vault rotate --tenant-key",
	} {
		if got := c.atHome(advice); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", advice, got, want)
		}
	}
	c.home = ""
	if got := c.atHome("kimbap link notes"); got != "kimbap --tenant a%c link notes" {
		t.Errorf("with --tenant alone: %s", got)
	}
	var said strings.Builder
	c.err = &said
	if c.say("%s; then: kimbap link %s", "100%", "notes"); said.String() != "100%; then: kimbap --tenant a%c link notes\n" {
		t.Errorf("said: %s", said.String())
	}
	c.tenant = ""
	if got := c.atHome("kimbap link notes"); got != "kimbap link notes" {
		t.Errorf("without both: %s", got)
	}
}
