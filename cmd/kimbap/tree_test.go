package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestEveryCommandExplainsItself walks the tree: each command, and each group of
// them, says what it does, shows how, and explains its flags. The first screen is how
// kimbap itself does.
func TestEveryCommandExplainsItself(t *testing.T) {
	seen := 0
	walk(tree(), func(cmd *cobra.Command) {
		if cmd.Hidden || isCobras(cmd) {
			return
		}
		seen++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its short text is %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Args == nil && !cmd.DisableFlagParsing {
			t.Errorf("%s does not say how many arguments it takes", cmd.CommandPath())
		}
		if cmd.HasParent() {
			if !strings.Contains(cmd.Example, cmd.CommandPath()) {
				t.Errorf("%s has no example", cmd.CommandPath())
			}
			for _, line := range shellLines(cmd.Example) {
				checkLine(t, cmd.CommandPath(), line)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no text", cmd.CommandPath(), f.Name)
			}
		})
	})
	if seen < 30 {
		t.Errorf("only %d commands seen", seen)
	}
}

// What stands behind a flag in the help is what to write there, never the type of a variable,
// and a usage line says that there are flags where it does not have all of them.
func TestTheHelpNamesValues(t *testing.T) {
	types := regexp.MustCompile(`(?m)^ +(-\w, )?--[a-z-]+ (string|strings|stringArray|int|duration)\b.*$`)
	walk(tree(), func(cmd *cobra.Command) {
		if cmd.Hidden || isCobras(cmd) {
			return
		}
		var said strings.Builder
		cmd.SetOut(&said)
		flags := cmd.LocalNonPersistentFlags()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		if line := types.FindString(said.String()); line != "" {
			t.Errorf("%s: %s", cmd.CommandPath(), strings.TrimSpace(line))
		}
		if use := cmd.UseLine(); !cmd.HasSubCommands() && !cmd.DisableFlagParsing && !strings.Contains(use, "[flags]") {
			flags.VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && !f.Hidden && !strings.Contains(use, "-"+f.Name) && !strings.Contains(use, "[-"+f.Shorthand) {
					t.Errorf("%s does not show --%s", use, f.Name)
				}
			})
		}
	})
}

// Whatever the terminal's width, a help has no line that is wider, but for what is to be
// pasted and for lists, which fit the usual 80 columns.
func TestTheHelpFitsTheTerminal(t *testing.T) {
	walk(tree(), func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		for _, columns := range []int{0, 40, 60, 80, 200} {
			var said strings.Builder
			writeHelp(&said, cmd, helpWidth(columns))
			most := helpWidth(columns)
			for line := range strings.SplitSeq(said.String(), "\n") {
				listed := columns == 0 || columns >= 80 || !strings.Contains(cmd.Long, line)
				pasted := strings.Contains(cmd.Example, line) || strings.HasPrefix(line, "    [") // one part of a usage line
				if n := len([]rune(line)); n > most && listed && !pasted && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%s --help is %d columns wide on a terminal of %d: %q", cmd.CommandPath(), n, columns, line)
				}
			}
			if !strings.HasSuffix(said.String(), "\n") || strings.Contains(said.String(), "\n\n\n") {
				t.Errorf("%s --help has an empty line too many, or no end: %q", cmd.CommandPath(), said.String())
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !strings.Contains(said.String(), "--"+f.Name) {
					t.Errorf("%s --help does not name --%s", cmd.CommandPath(), f.Name)
				}
			})
			for _, sub := range cmd.Commands() {
				if !sub.Hidden && !strings.Contains(said.String(), "\n  "+sub.Name()+" ") {
					t.Errorf("%s --help does not name %s", cmd.CommandPath(), sub.Name())
				}
			}
		}
	})
}

// TestDocumentsShowWhatThereIs holds the documents to the tree: what they tell
// a reader to type is a command with those flags, and what they point to exists.
func TestDocumentsShowWhatThereIs(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	checked := 0
	for _, document := range append(documents, "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		data, err := os.ReadFile(document)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, block := range blocks.FindAllStringSubmatch(string(data), -1) {
			for _, line := range shellLines(block[1]) {
				checked++
				checkLine(t, filepath.Base(document), line)
			}
		}
		for _, link := range links.FindAllStringSubmatch(string(data), -1) {
			target, _, _ := strings.Cut(link[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), target)); err != nil {
				t.Errorf("%s points to %s, which is not there", filepath.Base(document), target)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d lines of shell were found", checked)
	}
}

// TestCheckLine shows that the tests above can fail.
func TestCheckLine(t *testing.T) {
	for line, good := range map[string]bool{
		"kimbap link github":                     true,
		"kimbap run --agent ci -- ls --whatever": true,
		"kimbap call github.get-user --x y":      true,
		"kimbap lonk github":                     false,
		"kimbap link github --fiel key":          false,
		"kimbap link":                            false,
		"kimbap service instal github":           false,
		"kimbap vault set":                       false,
	} {
		if err := parses(strings.Fields(line)); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
	if got := shellLines("gh auth token | kimbap link github  # a comment\neval \"$(kimbap env --unset)\"\nmake && kimbap status; ls\nclaude mcp add kimbap -- kimbap mcp\nclaude mcp add -t http kimbap http://x"); len(got) != 4 {
		t.Errorf("found %q", got)
	}
}

var (
	blocks = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	links  = regexp.MustCompile(`\]\(([^) ]+)\)`)
	// addsServer is what of a line is another program's that is told of kimbap.
	addsServer = regexp.MustCompile(`(?m)^\s*(?:claude|codex|gemini) mcp add .*?\bkimbap (?:-- |http.*)?`)

	inside = regexp.MustCompile(`(?:^|[\s(|;&"])kimbap( [^|;&)#\n]*|$)`)
)

// shellLines finds the invocations of kimbap in lines of a shell.
func shellLines(text string) []string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		code, _, _ := strings.Cut(addsServer.ReplaceAllString(line, ""), " #")
		for _, found := range inside.FindAllStringSubmatch(strings.TrimSpace(code), -1) {
			out = append(out, "kimbap"+found[1])
		}
	}
	return out
}

func checkLine(t *testing.T, where, line string) {
	t.Helper()
	if err := parses(words(line)); err != nil {
		t.Errorf("%s shows %q: %v", where, line, err)
	}
}

// words splits as a shell does, as far as examples need it.
func words(line string) []string {
	var out []string
	for _, word := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s<>]+|[<>]\s*\S+`).FindAllString(line, -1) {
		if word[0] != '<' && word[0] != '>' {
			out = append(out, strings.Trim(word, `'"`))
		}
	}
	return out
}

// parses takes an invocation as far as it goes without being executed.
func parses(argv []string) error {
	cmd, args, err := tree().Find(argv[1:])
	if err != nil {
		return err
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func tree() *cobra.Command {
	root := newRoot(&cli{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
	root.InitDefaultHelpFlag()
	checkArgs(root, nil)
	return root
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// isCobras reports whether the command is one that cobra brings along.
func isCobras(cmd *cobra.Command) bool {
	return cmd.Name() == "help" || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion"
}
