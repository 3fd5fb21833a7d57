package app_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A service that puts bytes into its JSON that are no UTF-8 breaks no client: one that
// reads strictly would lose the whole MCP session over them. Who wants them has raw.
func TestAnswersAreUTF8(t *testing.T) {
	t.Parallel()
	const said = "{\"name\":\"caf\xe9 \xed\xa0\x80\"}"
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/latin": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(said), said))
		},
	}}})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	c := newAPI(t, k)
	const page = "/v1/actions/notes/read-as:execute"
	whole := c.ask(t, token, "POST", page, `{"input":{"how":"latin"}}`)
	var answer struct{ Result struct{ Name string } }
	if err := json.Unmarshal([]byte(whole.Body), &answer); err != nil || !utf8.ValidString(whole.Body) || !strings.HasPrefix(answer.Result.Name, "caf\uFFFD ") {
		t.Errorf("REST: %q %v", whole.Body, err)
	}
	if raw := c.ask(t, token, "POST", page, `{"input":{"how":"latin"},"raw":true}`); raw.Body != said {
		t.Errorf("raw: %q", raw.Body)
	}

	cmd := exec.Command(apptest.Worker(t), "mcp", "--home", k.Dir)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"notes.read-as","args":{"how":"latin"}}}}
`)
	cmd.Stderr = io.Discard
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"status":200`) || !utf8.Valid(out) {
		t.Errorf("MCP: %q %v", out, err)
	}
}

// A little of gzip can be a large answer, and that is in memory for as long as its caller
// takes to read it: only so many are there at once. Small ones do not wait.
func TestLargeAnswersAreNotAllInMemory(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("a", 32<<20) + `"` // more than the kernel keeps for both ends
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, large); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	say := func(coding, body string) servicestest.Behave {
		return func(c *servicestest.Conn, _ *servicestest.Request) bool {
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body))
		}
	}
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/zipped": say("gzip", zipped.String()), "/plain": say("identity", large), "/small": say("identity", "1"),
	}}})
	greedy, _ := tokenOf(t, k, app.TokenGrant{})
	c := newAPI(t, k)
	ask := func(ctx context.Context, how string) (io.ReadCloser, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", c.base+"/v1/actions/notes/read-as:execute", strings.NewReader(`{"input":{"how":"`+how+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+greedy)
		r.Header.Set("Content-Type", "application/json")
		answer, err := c.client.Do(r)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode != 200 {
			t.Errorf("%s: %d", how, answer.StatusCode)
		}
		return answer.Body, nil
	}
	var unread []io.Closer
	for range 2 {
		for _, how := range []string{"zipped", "plain"} {
			body, err := ask(t.Context(), how)
			if err != nil {
				t.Fatal(err)
			}
			unread = append(unread, body)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var more sync.WaitGroup
	for _, how := range []string{"zipped", "plain"} {
		more.Go(func() {
			if body, err := ask(soon, how); err == nil {
				t.Errorf("one more that is %s is answered while none is read", how)
				_ = body.Close()
			}
		})
	}
	more.Wait()
	if n := len(k.Up.Requests()); n != len(unread)+2 {
		t.Errorf("%d requests came to the upstream: those that wait have not been sent", n)
	}
	if body, err := ask(t.Context(), "small"); err != nil {
		t.Error(err)
	} else {
		_ = body.Close()
	}
	for _, body := range unread {
		_ = body.Close()
	}
	body, err := ask(t.Context(), "zipped")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	if got, err := io.ReadAll(body); err != nil || string(got) != `{"result":`+large+"}\n" {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}
