package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Config is the configuration in force. It is immutable after [Load] and safe
// for concurrent use.
type Config struct {
	Proxy     Proxy
	Egress    Egress
	Upstream  Upstream
	Audit     Audit
	Approval  Approval
	Policy    Policy
	Admin     Admin
	Store     Store
	MasterKey MasterKey
	Exec      Exec
	Serve     Serve
	Server    Server
	Debug     Debug

	origins map[string]string
	path    string
	again   func() *loader // over the same sources; a func, because it prints nothing of them
	seen    Seen           // of the files, when they were read
	named   []string       // the files of secrets that the file names
	secrets []string       // the files of secrets, whoever names them
}

// SecretFiles are the files that secrets of the configuration were read from, whether the
// file, a variable or a flag names them, and that of a token for a kimbap elsewhere.
func (c *Config) SecretFiles() []string {
	files := slices.Clone(c.secrets)
	if c.Server.TokenFile != "" {
		files = append(files, c.Server.TokenFile)
	}
	return files
}

// Debug is for finding defects.
type Debug struct {
	Mutations string // off; verify: hold what leaves against what came, and break what differs undeclared
}

// Proxy is the listener of the agents.
type Proxy struct {
	Listen         string         // host:port
	Auth           string         // local: programs of this user; token: a kimbap token
	Intercept      string         // services: their hosts only; all
	Unmatched      string         // allow or deny hosts that have no service
	Engine         string         // relay or std: what speaks HTTP/1.1 on both sides
	UpstreamProxy  runtime.Secret // URL of a corporate proxy, which may hold its password
	NoProxy        []string       // ranges, addresses and hosts that are reached without it
	Limits         Limits
	InsecureListen bool // only by flag: a listener beyond loopback, in clear
}

// Limits bound what clients can make the proxy hold.
type Limits struct {
	Tunnels      int // open tunnels in all
	PerPrincipal int // open tunnels of one principal
	HeaderBytes  int // one request's head

	Requests             int // in flight in all
	RequestsPerPrincipal int // in flight of one principal
}

// Egress says which addresses may be dialled.
type Egress struct {
	Private     string   // auto, allow or deny
	Allow, Deny []string // ranges, addresses or host names
}

// Upstream is how upstreams are found, trusted and waited for, and what is done about
// answers that cannot be searched for the credential.
type Upstream struct {
	Resolve       map[string]string // "host:port" → "address:port"
	CAFile        string            // PEM, added to the system's roots
	DialTimeout   Duration
	HeaderTimeout Duration // 0: none
	IdleTimeout   Duration
	Scrub         string // best_effort or strict
}

// Audit is where the trail goes.
type Audit struct {
	Dir        string // "": in the home
	Durability string // full: the disk; store: the database of store.dsn; sink: the required sinks
	Sinks      []Sink
	Retention  Duration // how long records are kept; 0: for ever
	Anchor     Anchor
}

// Anchor is where checkpoints of the trail go, outside of the home. Each place
// that is set gets all of them.
type Anchor struct {
	File    string         // appended to
	Command []string       // a program and its arguments; the checkpoint is on its standard input
	URL     string         // posted to
	Token   runtime.Secret // for URL, as a bearer token
	Every   Duration       // between two that are sent
}

// Approval is how long a request and a question wait for a person, and who is
// told.
type Approval struct {
	Hold    string // auto, or a duration
	Expires Duration
	Notify  []Notifier
	Link    string // URL that shows a question to an operator, with {id} in it; "": none
}

// autoHold is the longest wait of hold: auto; most clients give up at 60 s.
const autoHold = 50 * time.Second

// HoldFor returns the longest time that a request is held open; for auto that
// is 50 s, used only when somebody can answer.
func (a Approval) HoldFor() time.Duration {
	d, err := ParseDuration(a.Hold)
	if err != nil {
		return autoHold
	}
	return d.Duration()
}

// Policy is where the rules are.
type Policy struct {
	Source string // file: nothing over the network writes the rules; api: who has the role does
	Path   string // of the default tenant; "": policy.yaml in the home; a folder is allowed

	Tenants string // folder with NAME.yaml, or a folder NAME, for each other tenant; "": tenants/NAME/policy.yaml in the home
}

// Admin is the operator's own listener.
type Admin struct{ Listen string }

// Store is where secrets, tokens and approvals are kept.
type Store struct {
	DSN runtime.Secret // postgres://USER:PASSWORD@HOST/DATABASE; empty: SQLite in the home
}

// MasterKey says where the key of the vault is kept.
type MasterKey struct {
	Source string         // auto (which is file), file, env, keyring, command or transit
	Value  runtime.Secret // with source env only
	Next   runtime.Secret // with source env only: the key that shall follow

	Command    []string // with source command: run with one more argument, wrap or unwrap
	CommandEnv []string // names of further variables that it gets
	Timeout    Duration // of an external key service
	Transit    Transit
}

// Transit is the transit engine of a HashiCorp Vault.
type Transit struct {
	Address, Mount, Key, Namespace string
	Token                          runtime.Secret
	CAFile                         string // PEM, added to the system's roots
}

// Exec bounds scripts.
type Exec struct {
	Timeout   Duration
	CPU       Duration // of all of a script's threads, in whole seconds
	Heap      Size
	Calls     int
	Arguments Size // of one call
	Results   Size // of one answer, and of what the script returns
	Workers   int
}

// Serve is the listener of the REST surface.
type Serve struct {
	Listen string
	Hosts  []string // names beside localhost and addresses that it is called by
	URL    string   // by which others reach it, where TLS ends in a proxy before it; "": none does
}

// Origin is that of URL, as browsers write it (RFC 6454 section 6.2): "" without one.
func (s Serve) Origin() string {
	u, err := url.Parse(s.URL)
	if err != nil || s.URL == "" {
		return ""
	}
	return "https://" + strings.TrimSuffix(strings.ToLower(u.Host), ":443")
}

// Names are all host names that it is called by, beside localhost and addresses.
func (s Serve) Names() []string {
	u, err := url.Parse(s.URL)
	if err != nil || s.URL == "" {
		return s.Hosts
	}
	return append(slices.Clone(s.Hosts), u.Hostname())
}

// Server is a kimbap elsewhere that commands are done by.
type Server struct {
	URL       string // "": none, kimbap is here
	TokenFile string
	CAFile    string // PEM, added to the system's roots
}

// defaults are the values of every key that nobody set.
func defaults() *Config {
	return &Config{
		Proxy: Proxy{
			Listen: "127.0.0.1:7788", Auth: "local", Intercept: "services", Unmatched: "allow", Engine: "relay",
			Limits: Limits{Tunnels: 20000, PerPrincipal: 2000, HeaderBytes: 65536, Requests: 8192, RequestsPerPrincipal: 1024},
		},
		Egress:    Egress{Private: "auto"},
		Upstream:  Upstream{DialTimeout: Duration(10 * time.Second), IdleTimeout: Duration(5 * time.Minute), Scrub: "best_effort"},
		Audit:     Audit{Durability: "full", Anchor: Anchor{Every: Duration(time.Minute)}},
		Approval:  Approval{Hold: "auto", Expires: Duration(8 * time.Hour)},
		Policy:    Policy{Source: "file"},
		MasterKey: MasterKey{Source: "auto", Timeout: Duration(10 * time.Second), Transit: Transit{Mount: "transit"}},
		Exec:      Exec{Timeout: Duration(30 * time.Second), CPU: Duration(10 * time.Second), Heap: 96 << 20, Calls: 500, Arguments: 1 << 20, Results: 1 << 20, Workers: 2},
		Serve:     Serve{Listen: "127.0.0.1:8080"},
		Debug:     Debug{Mutations: "off"},
		origins:   map[string]string{},
	}
}
