package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// The entrances that are asked over HTTP: `serve`, the daemon's socket, and what a
// kimbap elsewhere does at a server.

// toldBy is what an answer of the API says.
func toldBy(got heard) string {
	if got.Status == 200 {
		return "ok"
	}
	return toldIn(got.Body)
}

// inputOf is the body that asks for a request.
func inputOf(t *testing.T, q question, more map[string]any) string {
	t.Helper()
	body := map[string]any{"input": q.Args}
	for name, value := range more {
		body[name] = value
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func throughServe(t *testing.T, k *apptest.Kimbap) asker {
	c := newAPI(t, k)
	token, _ := tokenOf(t, k, app.TokenGrant{Agent: "local"})
	return func(t *testing.T, q question) string {
		service, action, _ := strings.Cut(q.Action, ".")
		return toldBy(c.ask(t, token, "POST", "/v1/actions/"+service+"/"+action+":execute", inputOf(t, q, nil)))
	}
}

func throughDaemon(t *testing.T, k *apptest.Kimbap) asker {
	c, _ := daemonOf(t, k)
	return func(t *testing.T, q question) string {
		return toldBy(c.ask(t, "", "POST", "/call", inputOf(t, q, map[string]any{"action": q.Action})))
	}
}

// elsewhere is a server, and a home that is none with a token for it.
func elsewhere(t *testing.T, k *apptest.Kimbap) (args, env []string) {
	t.Helper()
	server := k.ServeAPI(t, app.APIOptions{Proxy: true})
	token, _ := tokenOf(t, k, app.TokenGrant{Agent: "local"})
	home := filepath.Join(t.TempDir(), "none")
	t.Cleanup(func() {
		if _, err := os.Stat(home); err == nil {
			t.Error("a home was made where kimbap is elsewhere")
		}
	})
	return []string{"--home", home, "--server", server}, append(os.Environ(), "KIMBAP_TOKEN="+token)
}

func throughConnectedCall(t *testing.T, k *apptest.Kimbap) asker {
	args, env := elsewhere(t, k)
	codes := map[int]string{0: "ok", 5: "forbidden", 6: "approval_pending"}
	return func(t *testing.T, q question) string {
		input, err := json.Marshal(q.Args)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(apptest.Worker(t), append([]string{"call", q.Action, "--no-wait", "--input", "-"}, args...)...)
		cmd.Stdin, cmd.Env = bytes.NewReader(input), env
		out, _ := cmd.CombinedOutput()
		if code, known := codes[cmd.ProcessState.ExitCode()]; known {
			return code
		}
		return toldIn(string(out))
	}
}

// throughConnectedRun asks from a program whose kimbap is elsewhere, see sender.
func throughConnectedRun(t *testing.T, k *apptest.Kimbap) asker {
	args, env := elsewhere(t, k)
	return asksFrom(t, env, args)
}
