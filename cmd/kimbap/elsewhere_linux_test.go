package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// changing is what differs from one request to the next.
var changing = regexp.MustCompile(`(req|apr|exe)_[0-9a-z]+|\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|"ms":\s*\d+`)

// startDaemon runs one over the home of k until the test ends.
func startDaemon(t *testing.T, k *apptest.Kimbap) {
	t.Helper()
	a := k.Open(t, "daemon")
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- a.ServeDaemon(ctx, app.DaemonOptions{Ready: func(socket string) { ready <- socket }})
	}()
	t.Cleanup(func() {
		stop()
		check(t, <-done)
	})
	<-ready
}

// What a command prints and how it ends is the same whether the daemon does it, a
// server elsewhere or the process itself.
func TestTheDaemonSaysWhatTheCommandSays(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	commands := [][]string{
		{"call", "notes.get-note", "--id", "7"},
		{"call", "notes.get-note", "--id", "7", "-o", "json"},
		{"call", "notes.get-note", "--id", "seven"},
		{"call", "notes.get-note"},
		{"call", "notes.get-note", "--help"},
		{"call", "notes.get-nothing"},
		{"call", "none.get-note"},
		{"call", "notes.get-note", "--id", "7", "--dry-run"},
		{"call", "notes.get-note", "--id", "7", "--dry-run", "-o", "json"},
		{"call", "notes.get-note", "--id", "7", "--all"},
		{"call", "notes.create-note", "--text", "hello"},
		{"call", "notes.create-key", "--fields", `{"a":1}`},
		{"call", "notes.delete-note", "--id", "3", "--no-wait"},
		{"list"}, {"list", "--json"},
		{"show"}, {"show", "notes.get-note", "--json"}, {"show", "nothing"},
		{"search", "note"}, {"search", "note", "--json", "--limit", "2"}, {"search", "zebra"},
		{"llm"}, {"llm", "notes"}, {"llm", "notes", "--json"}, {"llm", "nothing"},
	}
	agent := strings.TrimSpace(command(t, k, "", "token", "create", "--agent", "claude", "--scope", "*"))
	say := func(env []string, args []string) string {
		return changing.ReplaceAllString(invoke(t, k, "", env, args...), "ID")
	}
	before := make([]string, len(commands))
	for i, args := range commands {
		before[i] = say(nil, args)
	}
	startDaemon(t, k)
	asked := k.Mark(t)
	for i, args := range commands {
		if got := say(nil, args); got != before[i] {
			t.Errorf("kimbap %s\nby the daemon:\n%s\nby itself:\n%s", strings.Join(args, " "), got, before[i])
		}
	}
	byDaemon := false
	apptest.Eventually(t, "a record of the daemon's", func() bool {
		for _, r := range k.Requests(t, asked) {
			byDaemon = byDaemon || r.Slot == "daemon"
		}
		return byDaemon
	})
	api := k.ServeAPI(t, app.APIOptions{})
	env := []string{"KIMBAP_SERVER=" + api, "KIMBAP_TOKEN=" + agent, "KIMBAP_HOME=/nowhere/at/all"}
	for i, args := range commands {
		got := say(env, args)
		if exit, _, _ := strings.Cut(before[i], "\n"); !strings.HasPrefix(got, exit+"\n") {
			t.Errorf("kimbap %s\nby a server:\n%s\nby itself:\n%s", strings.Join(args, " "), got, before[i])
		}
		if strings.HasPrefix(before[i], "exit 0") && got != before[i] {
			t.Errorf("kimbap %s\nby a server:\n%s\nby itself:\n%s", strings.Join(args, " "), got, before[i])
		}
	}
}

// atServer serves a home, and gives what its commands say by a token of an agent and by one of an
// operator, from where there is no home.
func atServer(t *testing.T) (k *apptest.Kimbap, as func(token string, args ...string) string, agent, operator string) {
	t.Helper()
	k = apptest.New(t, apptest.Options{})
	api := k.ServeAPI(t, app.APIOptions{})
	agent = strings.TrimSpace(command(t, k, "", "token", "create", "--agent", "claude", "--scope", "*"))
	operator = strings.TrimSpace(command(t, k, "", "token", "create", "--agent", "chief", "--scope", "*", "--role", "kimbap.operator"))
	return k, func(token string, args ...string) string {
		return invoke(t, k, "", []string{"KIMBAP_SERVER=" + api, "KIMBAP_TOKEN=" + token, "KIMBAP_HOME=/nowhere/at/all"}, args...)
	}, agent, operator
}

// A yes for a while is listed and taken back where it was given; and what only the kimbap of this
// machine does is named by what was asked for.
func TestAYesIsTakenBackAtTheServer(t *testing.T) {
	_, as, agent, operator := atServer(t)
	id := regexp.MustCompile(`apr_[0-9a-z]+`).FindString(as(agent, "call", "notes.delete-note", "--id", "3", "--no-wait"))
	if said := as(operator, "approve", "accept", id, "--for", "10m"); !strings.HasPrefix(said, "exit 0\n") {
		t.Fatal(said)
	}
	if said := as(operator, "approve", "list", "--standing"); !strings.HasPrefix(said, "exit 0\n") || !strings.Contains(said, id) || !strings.Contains(said, "notes.delete-note") {
		t.Errorf("standing: %s", said)
	}
	if said := as(agent, "approve", "revoke", id); !strings.HasPrefix(said, "exit 5\n") {
		t.Errorf("revoked by the agent: %s", said)
	}
	if said := as(operator, "approve", "revoke", id); said != "exit 0\nrevoked: "+id+" allows only what was asked for, once, which has not been sent yet\n" {
		t.Errorf("revoke: %s", said)
	}
	if said := as(operator, "approve", "list", "--standing", "-o", "json"); said != "exit 0\n[]\n" {
		t.Errorf("standing: %s", said)
	}
	if said := as(operator, "approve", "revoke", id); !strings.HasPrefix(said, "exit 3\n") {
		t.Errorf("revoked twice: %s", said)
	}
	for what, args := range map[string][]string{
		"call --trace": {"call", "notes.get-note", "--id", "1", "--trace"}, "exec --check": {"exec", "--check", "-e", "return 1"},
		"audit tail -f": {"audit", "tail", "-f"}, "audit search --value-stdin": {"audit", "search", "--value-stdin"},
	} {
		if said := as(operator, args...); !strings.HasPrefix(said, "exit 2\n") || !strings.Contains(said, "server.url): "+what+" is done by the kimbap of this machine only") {
			t.Errorf("%s: %s", what, said)
		}
	}
}

// What is not there is looked for with commands that a server does.
func TestAServerNamesCommandsThatWorkThere(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	api := k.ServeAPI(t, app.APIOptions{})
	agent := strings.TrimSpace(command(t, k, "", "token", "create", "--agent", "claude", "--scope", "*"))
	for word, want := range map[string]string{
		"notes.zz": "fix:   kimbap list, or kimbap search WORDS\n", "nothing.at-all": "fix:   kimbap list, or kimbap search WORDS\n",
		"github.get-user": "fix:   on the machine of the server: kimbap service install github\n",
	} {
		said := invoke(t, k, "", []string{"KIMBAP_SERVER=" + api, "KIMBAP_TOKEN=" + agent, "KIMBAP_HOME=/nowhere/at/all"}, "call", word)
		if !strings.HasSuffix(said, want) {
			t.Errorf("%s: %s", word, said)
		}
	}
}

// A command that a server cannot do is refused before it does anything here.
func TestConnectedModeTouchesNoHome(t *testing.T) {
	k, as, agent, operator := atServer(t)
	for _, args := range [][]string{
		{"vault", "list"}, {"policy", "validate"}, {"token", "list"}, {"init"}, {"approve", "pin"}, {"audit", "verify"}, {"serve"}, {"lock"},
	} {
		if said := as(operator, args...); !strings.HasPrefix(said, "exit 2\n") || !strings.Contains(said, "--server") {
			t.Errorf("kimbap %s: %s", strings.Join(args, " "), said)
		}
	}
	waiting := make(chan string, 1)
	go func() { waiting <- as(agent, "call", "notes.delete-note", "--id", "3") }()
	var id string
	apptest.Within(t, 20*time.Second, "the question", func() bool {
		id = regexp.MustCompile(`apr_[0-9a-z]+`).FindString(as(operator, "approve", "list"))
		return id != ""
	})
	if said := as(operator, "approve", "show", id); !strings.HasPrefix(said, "exit 0\n") || !strings.Contains(said, "delete-note") {
		t.Errorf("show: %s", said)
	}
	if said := as(agent, "approve", "accept", id); !strings.HasPrefix(said, "exit 5\n") {
		t.Errorf("accepted by the agent: %s", said)
	}
	if said := as(operator, "approve", "accept", id); !strings.HasPrefix(said, "exit 0\naccepted "+id) {
		t.Errorf("accept: %s", said)
	}
	if said := <-waiting; !strings.HasPrefix(said, "exit 0\n") || !strings.Contains(said, "a person must decide this: approval "+id) {
		t.Errorf("call: %s", said)
	}
	if said := as(operator, "audit", "search", "--action", "notes.delete-note", "-o", "json"); !strings.Contains(said, `"surface": "rest"`) && !strings.Contains(said, `"surface":"rest"`) {
		t.Errorf("audit: %s", said)
	}
	if said := as(operator, "audit", "tail", "-n", "0"); said != "exit 0\n" {
		t.Errorf("no line of the trail: %s", said)
	}
	if said := as(agent, "audit", "search"); !strings.HasPrefix(said, "exit 5\n") {
		t.Errorf("audit as an agent: %s", said)
	}
	gone := invoke(t, k, "", []string{"KIMBAP_SERVER=http://127.0.0.1:1", "KIMBAP_TOKEN=" + agent}, "list")
	if !strings.HasPrefix(gone, "exit 10\n") {
		t.Errorf("a server that is not there: %s", gone)
	}
	clear := invoke(t, k, "", []string{"KIMBAP_SERVER=http://kimbap.example.com", "KIMBAP_TOKEN=" + agent}, "list")
	if !strings.HasPrefix(clear, "exit 2\n") || !strings.Contains(clear, "in clear") {
		t.Errorf("in clear: %s", clear)
	}
}
