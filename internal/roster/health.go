package roster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// askLimit is how long a status waits for what a process says of its health.
const askLimit = time.Second

// Healthy asks the proxies that run over this home whether they can work, and
// fails when none runs or one cannot.
//
// A proxy that runs where nobody listens, seen from here, is of a container with a network
// of its own, and says nothing about one that can be asked.
func (f Folder) Healthy(ctx context.Context) error {
	well, ill := false, &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Msg: "no proxy runs over this home", Hint: "kimbap proxy"}
	for _, r := range f.Serving(Proxy) {
		err := Ask(ctx, r.Listen)
		if err == nil {
			well = true
			continue
		}
		ill = &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the proxy at " + r.Listen + " is not well", Hint: "kimbap doctor", Err: err}
		if !system.ConnectionRefused(err) {
			return ill
		}
		ill.Code, ill.Reason = runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable
	}
	if !well {
		return ill
	}
	return nil
}

// Answered is a process that says in the home that it runs, and how it answered.
type Answered struct {
	Running
	Unwell string `json:"unwell,omitempty"` // what its health said, "" when it is well
}

// Asked asks them all at once how they are, for as long as a person waits for a status.
func Asked(ctx context.Context, running []Running) []Answered {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out := make([]Answered, len(running))
	var all sync.WaitGroup
	for i, r := range running {
		out[i].Running = r
		all.Go(func() {
			if err := Ask(ctx, r.Listen); err != nil {
				out[i].Unwell = runtime.Said(err)
			}
		})
	}
	all.Wait()
	return out
}

// Ask asks one listener whether it is well. Who listens on every address is asked on loopback.
func Ask(ctx context.Context, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if ip.To4() != nil {
			host = "127.0.0.1"
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("does not answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("health says %s, %s", answer.Status, bytes.TrimSpace(said))
	}
	return nil
}
