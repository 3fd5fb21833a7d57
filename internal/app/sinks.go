package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/database"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/file"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/otlp"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/stream"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/syslogd"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/webhook"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
)

// sinks builds the second writers of the trail that the configuration names. The
// standard output is one for a process that has no other use for it.
func (a *App) sinks() ([]outlet.Sink, error) {
	var out []outlet.Sink
	for _, c := range a.config.Current().Audit.Sinks {
		if c.Type == "stdout" && a.o.Stdout == nil || c.Type == "store" && a.storeless != nil {
			continue
		}
		s, err := a.sink(c)
		if err != nil {
			return nil, fmt.Errorf("audit.sinks: %w", err)
		}
		out = append(out, s)
	}
	if a.storeless == nil && a.config.Current().Audit.Durability == "store" && !slices.ContainsFunc(out, func(s outlet.Sink) bool { _, is := s.(*database.Sink); return is && s.Required() }) {
		s, err := a.storeSink(true)
		return append(out, s), err
	}
	return out, nil
}

// sinksLast reports whether a record is durable once the required sinks have it. Without the
// store, which is one, it is in the ledger: what is recorded then takes rights away.
func (a *App) sinksLast(sinks []outlet.Sink) bool {
	return a.config.Current().Audit.Durability != "full" && (a.storeless == nil || slices.ContainsFunc(sinks, outlet.Sink.Required))
}

// sinksElsewhere are the required sinks that only other processes have: those with a standard
// output of their own, and those that can use the store.
func (a *App) sinksElsewhere() (names []string) {
	c := a.config.Current()
	stored := c.Audit.Durability == "store"
	for _, sink := range c.Audit.Sinks {
		if sink.Type == "stdout" && sink.Required && a.o.Stdout == nil {
			names = append(names, sink.Type)
		}
		stored = stored || sink.Type == "store" && sink.Required
	}
	if stored && a.storeless != nil {
		if name, err := postgres.NameOf(c.Store.DSN.Reveal()); err == nil { // with another address it is another sink
			names = append(names, database.NameIn(name))
		}
	}
	return names
}

// sayArrears logs how far a required sink is with what it has missed, where that is much.
func (a *App) sayArrears(now audit.Arrears) {
	said := a.o.Log.Info().Str("sink", now.Sink).Str("slot", now.Slot).Uint64("sent", now.Sent).Uint64("left", now.Left)
	if now.Left > 0 {
		said.Msg("an audit sink is being given what it has missed; requests wait for that")
		return
	}
	said.Msg("an audit sink has what it had missed")
}

// storeSink gives the trail to the database that homes share.
func (a *App) storeSink(required bool) (outlet.Sink, error) {
	if a.shared == nil { // as config has checked; with a configuration that cannot be read there are no sinks
		return nil, errors.New("store.dsn names no database")
	}
	return database.New(database.Options{Keeper: a.shared, Name: a.shared.Name(), Home: a.homeName, Required: required})
}

func (a *App) sink(c config.Sink) (outlet.Sink, error) {
	switch c.Type {
	case "store":
		return a.storeSink(c.Required)
	case "stdout":
		return stream.New(stream.Options{Name: c.Type, Writer: a.o.Stdout, Required: c.Required})
	case "syslog":
		host, _ := os.Hostname() // "-" without one
		return syslogd.New(syslogd.Options{Network: c.Network, Address: c.Address, Hostname: host, Process: os.Getpid(), Required: c.Required})
	case "webhook", "otlp":
		poster, err := a.poster(c.URL, c.Token)
		if err != nil {
			return nil, err
		}
		if c.Type == "otlp" {
			return otlp.New(poster, a.o.Clock, c.Required)
		}
		return webhook.New(poster, c.Required)
	default:
		return file.New(file.Options{Path: c.Path, Clock: a.o.Clock, Required: c.Required, MaxSize: int64(c.MaxSize), Keep: c.Keep})
	}
}

// poster sends to a URL of the operator's, which is trusted as upstreams are and
// reached directly: no agent says where it leads.
func (a *App) poster(url string, token runtime.Secret) (*sink.Poster, error) {
	trust, err := a.upstreamTLS()
	if err != nil {
		return nil, err
	}
	return sink.NewPoster(sink.PosterOptions{URL: url, Token: token, TLS: trust})
}

// linger is how long best-effort sinks may hold up the end of a process: a short
// command's user waits for it.
func (a *App) linger() time.Duration {
	if a.o.Slot == "" {
		return time.Second
	}
	return 5 * time.Second
}

// trailRefuses says to the operator why the trail takes nothing, "" where it does, or where a
// sink that fails says so itself.
func (a *App) trailRefuses() string {
	err, failed := a.trail.Ready(), (*outlet.Failure)(nil)
	if err == nil || errors.As(err, &failed) {
		return ""
	}
	return runtime.Said(runtime.AsError(err).Err)
}

// trailState is what of the trail stands in the state file, in one word that
// changes with it. Queues come and go and do not count; what a required sink lacks does.
func (a *App) trailState() string {
	said := a.witness.Problem() + "\n" + a.trailRefuses()
	for _, s := range a.trail.Health().Sinks {
		lacks := 0
		if s.Required {
			lacks = s.Queue
		}
		said += fmt.Sprintf("\n%s %d %d %s", s.Name, s.Lost, lacks, s.LastError)
	}
	return said
}
