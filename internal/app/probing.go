package app

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/kimbap-run/kimbap/internal/probe"
)

// Probed is how one client got on.
type Probed = probe.Probed

// ProbeNames are the clients that ProbeClients knows.
func ProbeNames() []string { return probe.Names() }

// Probing is what ProbeClients needs of the process.
type Probing struct {
	Options          // of which the home is not used
	Names   []string // clients; empty: all
	Fetch   []string // command that leads to FetchOnce, for Go
	Tell    func(Probed)
}

// ProbeClients tries clients, each behind a proxy of its own, over a home that is
// made for it and removed.
func ProbeClients(ctx context.Context, o Probing) error {
	return probe.Clients(ctx, probe.Options{Names: o.Names, Fetch: o.Fetch, Tell: o.Tell, Open: o.open})
}

// FetchOnce prints what is at a URL, as any program in Go would get it: that is
// what doctor tries for Go.
func FetchOnce(ctx context.Context, url string, out io.Writer) error {
	return probe.Fetch(ctx, url, out)
}

// open opens a kimbap as clients are tried with.
func (o Probing) open(ctx context.Context, s probe.Setup) (probe.Kimbap, error) {
	env := []string{"KIMBAP_HOME=" + s.Home}
	for _, pair := range o.Env {
		if !strings.HasPrefix(pair, "KIMBAP_") {
			env = append(env, pair)
		}
	}
	with := o.Options
	with.Home, with.Env, with.Flags, with.Create, with.Slot, with.Tenant = s.Home, env, nil, true, "run", ""
	a, err := New(with)
	if err != nil {
		return nil, err
	}
	if err := a.Open(ctx); err != nil {
		return nil, err
	}
	_, err = a.InstallService(ctx, s.Service, nil)
	if err == nil {
		_, _, err = a.SetSecret(ctx, s.Secret, s.Key, SecretOptions{})
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return probed{a}, nil
}

// probed is a kimbap that clients are tried with.
type probed struct{ a *App }

var _ probe.Kimbap = probed{}

// Run implements [probe.Kimbap].
func (p probed) Run(ctx context.Context, command []string, said io.Writer) (int, probe.Saw, error) {
	code, err := p.a.Run(ctx, RunOptions{
		Command: command, Agent: "doctor", Unattended: true, NoCover: true, Stop: ctx.Done(),
		Stdin: strings.NewReader(""), Stdout: said, Stderr: said, Say: func(string) {},
	})
	if err != nil {
		return 0, probe.Saw{}, err
	}
	t := p.a.run.tally
	return code, probe.Saw{Shown: t.Shown(), Requests: t.Counts().Requests, Rejected: t.Rejected()}, nil
}

// Close implements [probe.Kimbap].
func (p probed) Close() error { return p.a.Close() }
