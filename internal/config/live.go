package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// Live is the configuration in force of a process that goes on while its file changes.
// [Live.Current] is safe for concurrent use; the rest is for the one goroutine that
// watches. Who uses a live key asks Current when it does, and keeps nothing.
type Live struct {
	now   atomic.Pointer[Config]
	seen  Seen
	named []string
}

// Seen is what files look like from outside: it differs once one of them was changed.
type Seen struct {
	File  string // config.yaml; "": there is none
	Named string // the files of secrets that it names
}

// Look is what one file looks like, "" where there is none. It follows links: what they
// lead to counts.
func Look(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

// NewLive starts with a configuration that was just loaded.
func NewLive(c *Config) *Live {
	l := &Live{seen: c.seen, named: c.named}
	l.now.Store(c)
	return l
}

// Current returns the configuration in force. It is never changed: another takes its
// place.
func (l *Live) Current() *Config { return l.now.Load() }

// Swap puts another one in force, for who asks from now on.
func (l *Live) Swap(c *Config) { l.now.Store(c) }

// Seen is what the files looked like when they were last read, well or not: each before
// it was, so that what is written meanwhile shows.
func (l *Live) Seen() Seen { return l.seen }

// Look is what those files look like now.
func (l *Live) Look() Seen {
	now := Seen{File: Look(l.Current().path)}
	for _, path := range l.named {
		now.Named += Look(path) + "\n"
	}
	return now
}

// Again reads the file anew, with the environment and the flags of the start: a value
// that came from there still does, and is no other. A file that was there and is gone is
// an error, because the defaults may allow more than it did. Other errors are those of
// [Load].
func (l *Live) Again() (*Config, error) {
	was := l.Current()
	r := was.again()
	r.was = was
	c, err := r.load()
	l.seen, l.named = r.seen, r.named
	return c, err
}

// Peek is [Live.Again] for whoever does not watch: what was changed is still to be seen by
// the one who does. It is safe for concurrent use.
func (l *Live) Peek() (*Config, error) {
	was := l.Current()
	r := was.again()
	r.was = was
	return r.load()
}

// Follow returns what is in force after c when next is what its sources say now: the live
// keys of next but for those of except, and all others as they were. Waiting are the
// keys that next has another value for; with a restart they are taken up.
func (c *Config) Follow(next *Config, except ...string) (now *Config, waiting []string) {
	after := *c
	after.origins, after.seen, after.named, after.secrets = maps.Clone(c.origins), next.seen, next.named, next.secrets
	from, to := next.settings(), after.settings()
	for i, s := range to {
		switch {
		case !s.shown() || s.to == nil || s.same(from[i]):
		case !s.live || slices.Contains(except, s.key):
			waiting = append(waiting, s.key)
			continue
		default:
			reflect.ValueOf(s.to).Elem().Set(reflect.ValueOf(from[i].to).Elem())
		}
		delete(after.origins, s.key)
		if origin, ok := next.origins[s.key]; ok {
			after.origins[s.key] = origin
		}
	}
	return &after, waiting
}

// same reports whether a setting has the same value in another configuration.
func (s setting) same(other setting) bool { return reflect.DeepEqual(s.to, other.to) }

// Same reports whether two configurations agree in all keys that begin so.
func (c *Config) Same(other *Config, prefixes ...string) bool {
	from := other.settings()
	for i, s := range c.settings() {
		begins := func(prefix string) bool { return strings.HasPrefix(s.key, prefix) }
		if s.to != nil && slices.ContainsFunc(prefixes, begins) && !s.same(from[i]) {
			return false
		}
	}
	return true
}

// keyAtStart is a master key as it was at the start: its file may be gone since, or a pipe.
func (l *loader) keyAtStart(name string) (value string, at place, ok bool) {
	key := l.was.MasterKey.Value
	if name == nextKeyName {
		key = l.was.MasterKey.Next
	}
	at = variable(name)
	if file := lookup(l.env, name+"_FILE"); lookup(l.env, name) == "" && file != "" {
		at = variable(name + "_FILE")
		l.secrets = append(l.secrets, l.absolute(file, at))
	}
	return key.Reveal(), at, true
}

// twin reads a secret from the file that its twin names. One that a variable or a flag
// names was read at the start.
func (l *loader) twin(s setting, path string, at place) (string, error) {
	if l.was == nil || at.line > 0 {
		return l.secretFile(path, at)
	}
	l.secrets = append(l.secrets, l.absolute(path, at))
	for _, before := range l.was.settings() {
		if held, ok := before.to.(*runtime.Secret); ok && before.key == s.key {
			return held.Reveal(), nil
		}
	}
	return "", wrong{s.key + " cannot be read again", "restart kimbap"}
}
