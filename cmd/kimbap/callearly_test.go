package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/runtime"
)

// ownSet is the flags of call itself.
func ownSet() *pflag.FlagSet {
	c := &cli{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	return c.ownFlags(newRoot(c), &callFlags{})
}

// The text of an argument may come from anybody: whose home it is, and who gets the token, it
// must not say. Quoted for the shell it is a word of its own.
func TestAnArgumentIsNoGlobalFlag(t *testing.T) {
	for words, want := range map[string]struct{ sure, doubtful string }{
		"notes.make --title hello":                           {},
		"notes.make --title --server=http://a.test":          {doubtful: "server"},
		"notes.make --title --server http://a.test":          {doubtful: "server"},
		"notes.make --title --home=/tmp/x":                   {doubtful: "home"},
		"notes.make --draft --title --token-file=key":        {doubtful: "token-file"},
		"notes.make --draft --title --tags --tenant=acme":    {doubtful: "tenant"},
		"notes.make --input --server --home=x":               {sure: "--input --server --home=x"},
		"notes.make --title --json":                          {},
		"notes.make --title --jq --timeout 1ns":              {doubtful: "timeout"},
		"notes.make --title --jq x --timeout 1s":             {sure: "--timeout 1s"},
		"notes.make --title --dry-run --home x":              {sure: "--home x"},
		"notes.make --title -- --home=x":                     {doubtful: "home"},
		"notes.make -- --home=x":                             {},
		"notes.make --title -ojson --home=x":                 {sure: "--home=x"},
		"notes.make --title -o --home=x":                     {doubtful: "home"},
		"notes.make --title -zz --home=x":                    {doubtful: "home"},
		"notes.make --title=--home=x --home=y":               {sure: "--home=y"},
		"notes.make --title hello --home y --json":           {sure: "--home y --json"},
		"--home y notes.make --title hello":                  {sure: "--home y"},
		"--home --server=x notes.make":                       {sure: "--home --server=x"},
		"notes.make --dry-run --home y":                      {sure: "--dry-run --home y"},
		"notes.make -qv --home y --draft":                    {sure: "-qv --home y"},
		"notes.make -qo json --home y":                       {sure: "-qo json --home y"},
		"notes.make --all --max 5 --server http://127.0.0.1": {sure: "--all --max 5 --server http://127.0.0.1"},
	} {
		sure, doubtful := sureFlags(ownSet(), strings.Fields(words))
		if strings.Join(sure, " ") != want.sure || doubtful != want.doubtful {
			t.Errorf("%s: sure %q, doubtful %q", words, sure, doubtful)
		}
	}
}

// [runtime.CallFlag] says the flag of an argument where no flags are: its list is all of them.
func TestCallFlagKnowsAllFlagsOfCall(t *testing.T) {
	var all []string
	ownSet().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	for _, name := range all {
		for _, argument := range []string{name, strings.ReplaceAll(name, "-", "_")} {
			if flag := runtime.CallFlag(argument); flag != "arg."+argument {
				t.Errorf("%s is --%s", argument, flag)
			}
		}
	}
	for _, argument := range []string{"title", "per_page", "dry", "output_format"} {
		if flag := runtime.CallFlag(argument); flag != argument || slices.Contains(all, argument) {
			t.Errorf("%s is --%s", argument, flag)
		}
	}
}
