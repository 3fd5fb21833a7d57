package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// kind is the YAML form of a setting.
type kind int

const (
	aText kind = iota
	aNumber
	aSize // a number of bytes or text with a unit
	aList
	aMap
	aSinks
	aNotifiers
)

// setting is one key: how it is read from any source and shown again.
type setting struct {
	key   string
	kind  kind
	env   string                                   // its variable; "": as its key is called
	path  bool                                     // a relative path in the file is relative to the file
	words bool                                     // of a command: a list in which a text may stand twice
	value secretKind                               // how carefully it is shown
	live  bool                                     // a running process takes it up; else it wants a restart
	to    any                                      // points to the value; nil: there is none to keep
	set   func(values []string) (bad int, e error) // one value, or the list, or "key=value" each
	show  func() any                               // string, int, []string, map[string]string, []Sink or []Notifier
}

type secretKind int

const (
	plain   secretKind = iota
	secret             // the value itself
	twinned            // "_file": read from the file it names
)

// settings is the list of all keys, bound to c.
func (c *Config) settings() []setting {
	return slices.Concat(c.trafficSettings(), c.keepingSettings(), c.keySettings(), c.placeSettings())
}

// trafficSettings are those of requests on their way.
func (c *Config) trafficSettings() []setting {
	p, e, u := &c.Proxy, &c.Egress, &c.Upstream
	return []setting{
		text("proxy.listen", &p.Listen, checkListen),
		choice("proxy.auth", &p.Auth, "local", "token"),
		live(choice("proxy.intercept", &p.Intercept, "services", "all")),
		live(choice("proxy.unmatched", &p.Unmatched, "allow", "deny")),
		choice("proxy.engine", &p.Engine, "relay", "std"),
		live(hidden("proxy.upstream_proxy", &p.UpstreamProxy, checkProxyURL)),
		live(twin("proxy.upstream_proxy_file", &p.UpstreamProxy, checkProxyURL)),
		live(list("proxy.upstream_no_proxy", &p.NoProxy, checkEgressEntry)),
		number("proxy.limits.tunnels", &p.Limits.Tunnels, 1, 1_000_000),
		number("proxy.limits.per_principal", &p.Limits.PerPrincipal, 1, 1_000_000),
		number("proxy.limits.header_bytes", &p.Limits.HeaderBytes, 1024, 16<<20),
		number("proxy.limits.requests", &p.Limits.Requests, 1, 1_000_000),
		number("proxy.limits.requests_per_principal", &p.Limits.RequestsPerPrincipal, 1, 1_000_000),
		live(choice("egress.private", &e.Private, "auto", "allow", "deny")),
		live(list("egress.allow", &e.Allow, checkEgressEntry)),
		live(list("egress.deny", &e.Deny, checkEgressEntry)),
		live(pairs("upstream.resolve", &u.Resolve, checkResolve)),
		asPath(text("upstream.ca_file", &u.CAFile, anything)),
		live(duration("upstream.dial_timeout", &u.DialTimeout, time.Millisecond, time.Hour)),
		live(duration("upstream.header_timeout", &u.HeaderTimeout, 0, 24*time.Hour)),
		live(duration("upstream.idle_timeout", &u.IdleTimeout, time.Second, 24*time.Hour)),
		live(choice("upstream.scrub", &u.Scrub, "best_effort", "strict")),
	}
}

// keepingSettings are those of what is kept and decided.
func (c *Config) keepingSettings() []setting {
	return []setting{
		asPath(text("audit.dir", &c.Audit.Dir, anything)),
		choice("audit.durability", &c.Audit.Durability, "full", "store", "sink"),
		{key: "audit.sinks", kind: aSinks, to: &c.Audit.Sinks, show: func() any { return c.Audit.Sinks }},
		duration("audit.retention", &c.Audit.Retention, 0, 100*365*24*time.Hour),
		asPath(text("audit.anchor.file", &c.Audit.Anchor.File, anything)),
		words("audit.anchor.command", &c.Audit.Anchor.Command, checkWord),
		text("audit.anchor.url", &c.Audit.Anchor.URL, checkPostURL),
		hidden("audit.anchor.token", &c.Audit.Anchor.Token, oneWord),
		twin("audit.anchor.token_file", &c.Audit.Anchor.Token, oneWord),
		duration("audit.anchor.every", &c.Audit.Anchor.Every, time.Second, 24*time.Hour),
		live(text("approval.hold", &c.Approval.Hold, checkHold)),
		{key: "approval.notify", kind: aNotifiers, to: &c.Approval.Notify, show: func() any { return c.Approval.Notify }},
		text("approval.link", &c.Approval.Link, checkLink),
		live(duration("approval.expires", &c.Approval.Expires, time.Minute, 90*24*time.Hour)),
		live(choice("policy.source", &c.Policy.Source, "file", "api")),
		live(asPath(text("policy.path", &c.Policy.Path, anything))),
		live(asPath(text("policy.tenants", &c.Policy.Tenants, anything))),
	}
}

// keySettings are those of the master key.
func (c *Config) keySettings() []setting {
	k, t := &c.MasterKey, &c.MasterKey.Transit
	return []setting{
		live(choice("master_key.source", &k.Source, "auto", "file", "env", "keyring", "command", "transit")),
		live(words("master_key.command", &k.Command, anything)),
		live(list("master_key.command_env", &k.CommandEnv, checkVariable)),
		live(duration("master_key.timeout", &k.Timeout, 100*time.Millisecond, 5*time.Minute)),
		live(text("master_key.transit.address", &t.Address, anything)),
		live(text("master_key.transit.mount", &t.Mount, anything)),
		live(text("master_key.transit.key", &t.Key, anything)),
		live(text("master_key.transit.namespace", &t.Namespace, anything)),
		live(hidden("master_key.transit.token", &t.Token, anything)),
		live(twin("master_key.transit.token_file", &t.Token, anything)),
		live(asPath(text("master_key.transit.ca_file", &t.CAFile, anything))),
	}
}

// placeSettings are those of the store, of scripts, and of where else kimbap listens.
func (c *Config) placeSettings() []setting {
	return []setting{
		text("admin.listen", &c.Admin.Listen, checkListen),
		hidden("store.dsn", &c.Store.DSN, checkDSN),
		twin("store.dsn_file", &c.Store.DSN, checkDSN),
		duration("exec.timeout", &c.Exec.Timeout, time.Millisecond, 24*time.Hour),
		duration("exec.cpu", &c.Exec.CPU, time.Second, 24*time.Hour),
		size("exec.heap", &c.Exec.Heap, 1<<20, 64<<30),
		number("exec.calls", &c.Exec.Calls, 1, 1_000_000),
		size("exec.arguments", &c.Exec.Arguments, 1<<10, 2016<<10),
		size("exec.results", &c.Exec.Results, 1<<10, 2016<<10),
		number("exec.workers", &c.Exec.Workers, 1, 1024),
		text("serve.listen", &c.Serve.Listen, checkListen),
		list("serve.hosts", &c.Serve.Hosts, checkHostName),
		text("serve.url", &c.Serve.URL, checkOutside),
		live(called(text("server.url", &c.Server.URL, checkServer), "KIMBAP_SERVER")),
		live(called(asPath(text("server.token_file", &c.Server.TokenFile, anything)), "KIMBAP_TOKEN_FILE")),
		live(asPath(text("server.ca_file", &c.Server.CAFile, anything))),
		choice("debug.mutations", &c.Debug.Mutations, "off", "verify"),
	}
}

func anything(string) error { return nil }

func text(key string, to *string, check func(string) error) setting {
	return setting{key: key, to: to, show: func() any { return *to }, set: func(v []string) (int, error) {
		if err := check(v[0]); err != nil {
			return 0, err
		}
		*to = v[0]
		return 0, nil
	}}
}

func asPath(s setting) setting {
	s.path = true
	return s
}

// called gives a setting a variable of another name than its key's.
func called(s setting, env string) setting {
	s.env = env
	return s
}

// live marks a key that a running process takes up when its file changes. One is live
// where all code that uses it asks [Live.Current] when it does, or is told of a change.
func live(s setting) setting {
	s.live = true
	return s
}

func choice(key string, to *string, options ...string) setting {
	return text(key, to, func(v string) error {
		if !slices.Contains(options, v) {
			return wrong{fmt.Sprintf("%q is not a value of %s", v, key), "write " + oneOf(options)}
		}
		return nil
	})
}

func hidden(key string, to *runtime.Secret, check func(string) error) setting {
	return setting{key: key, to: to, value: secret, set: intoSecret(to, check), show: func() any {
		if to.Empty() {
			return ""
		}
		return runtime.Redacted
	}}
}

func twin(key string, to *runtime.Secret, check func(string) error) setting {
	return setting{key: key, to: to, value: twinned, set: intoSecret(to, check)}
}

func intoSecret(to *runtime.Secret, check func(string) error) func([]string) (int, error) {
	return func(v []string) (int, error) {
		if err := check(v[0]); err != nil {
			return 0, err
		}
		*to = runtime.NewSecret(v[0])
		return 0, nil
	}
}

func number(key string, to *int, low, high int) setting {
	return setting{key: key, to: to, kind: aNumber, show: func() any { return *to }, set: func(v []string) (int, error) {
		n, err := strconv.Atoi(v[0])
		if err != nil || strconv.Itoa(n) != v[0] || n < low || n > high {
			return 0, wrong{fmt.Sprintf("%s cannot be %q", key, v[0]), fmt.Sprintf("write a whole number from %d to %d", low, high)}
		}
		*to = n
		return 0, nil
	}}
}

func duration(key string, to *Duration, low, high time.Duration) setting {
	return setting{key: key, to: to, show: func() any { return to.String() }, set: func(v []string) (int, error) {
		d, err := ParseDuration(v[0])
		if err != nil {
			return 0, err
		}
		if d.Duration() < low || d.Duration() > high {
			return 0, wrong{fmt.Sprintf("%s cannot be %s", key, d), fmt.Sprintf("write a duration from %s to %s", Duration(low), Duration(high))}
		}
		*to = d
		return 0, nil
	}}
}

func size(key string, to *Size, low, high Size) setting {
	return setting{key: key, to: to, kind: aSize, show: func() any { return to.String() }, set: func(v []string) (int, error) {
		n, err := parseSize(v[0])
		if err != nil {
			return 0, err
		}
		if n < low || n > high {
			return 0, wrong{fmt.Sprintf("%s cannot be %s", key, n), fmt.Sprintf("write a size from %s to %s", low, high)}
		}
		*to = n
		return 0, nil
	}}
}

func list(key string, to *[]string, check func(string) error) setting {
	return setting{key: key, to: to, kind: aList, show: func() any { return slices.Clone(*to) }, set: func(v []string) (int, error) {
		for i, item := range v {
			if err := check(item); err != nil {
				return i, err
			}
		}
		*to = slices.Clone(v)
		return 0, nil
	}}
}

// words is the list of a command.
func words(key string, to *[]string, check func(string) error) setting {
	s := list(key, to, check)
	s.words = true
	return s
}

func pairs(key string, to *map[string]string, check func(from, to string) error) setting {
	return setting{key: key, to: to, kind: aMap, show: func() any { return maps.Clone(*to) }, set: func(v []string) (int, error) {
		out, seen := map[string]string{}, map[string]bool{}
		for i, item := range v {
			from, target, ok := strings.Cut(item, "=")
			if !ok {
				return i, wrong{fmt.Sprintf("%q is not FROM=TO", item), "write host:port=address:port"}
			}
			if err := check(from, target); err != nil {
				return i, err
			}
			name := canonical(from)
			if seen[name] { // which of the two counted would be chance
				return i, wrong{fmt.Sprintf("%q stands twice in %s", from, key), "keep one of the two"}
			}
			seen[name], out[from] = true, target
		}
		*to = out
		return 0, nil
	}}
}

// oneOf writes "a, b or c".
func oneOf(options []string) string {
	if len(options) == 1 {
		return options[0]
	}
	last := len(options) - 1
	return strings.Join(options[:last], ", ") + " or " + options[last]
}
