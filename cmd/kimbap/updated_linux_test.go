package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What serves goes on with scripts after an update has put another program in its place, or has
// removed it: its workers are of its own version, never of another one.
func TestScriptsRunInTheProgramThatServesThem(t *testing.T) {
	built, err := workerBuilt()
	check(t, err)
	r := newDaemonRig(t)
	check(t, os.Remove(r.program))
	check(t, os.Link(built, r.program))
	r.running(t, "")
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.socket())
	}}}
	defer client.CloseIdleConnections()
	other := filepath.Join(r.dir, "other")
	check(t, os.WriteFile(other, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	for _, c := range []struct {
		name   string
		update func() error
	}{
		{"as it was", func() error { return nil }},
		{"replaced", func() error { return os.Rename(other, r.program) }},
		{"removed", func() error { return os.Remove(r.program) }},
	} {
		check(t, c.update())
		for range 4 { // more than are kept ready
			answer, err := client.Post("http://kimbap/v1/exec", "application/json", strings.NewReader(`{"code": "return 1 + 1"}`))
			check(t, err)
			var said struct{ Value int }
			text, err := io.ReadAll(answer.Body)
			check(t, err)
			_ = answer.Body.Close()
			if json.Unmarshal(text, &said) != nil || said.Value != 2 {
				t.Errorf("%s: %d %s", c.name, answer.StatusCode, text)
			}
		}
	}
}
