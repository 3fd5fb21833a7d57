package postgres

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kimbap-run/kimbap/runtime"
)

// How long things may take. A caller has an answer within three seconds whatever the
// database does.
const (
	patience    = 2500 * time.Millisecond // of one call, connecting included
	connectWait = 2 * time.Second         // of one connection
	lockWait    = "2000"                  // of one lock, in milliseconds
	idleWait    = "3000"                  // of a transaction of a process that hangs, in milliseconds: others wait for it
	glance      = 500 * time.Millisecond  // of a look at the change counter
	quiet       = 5 * time.Minute         // until a connection that nobody uses is closed
	connections = 10                      // at most, of one process
)

// home is the schema that has our tables.
const home = "kimbap"

// configure reads an address: postgres://USER:PASSWORD@HOST:PORT/DATABASE?KEY=VALUE. What
// it leaves out of user, password and database is taken from where libpq looks, but
// never whether TLS is used.
func configure(address string) (*pgxpool.Config, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, refused("it is no address of a PostgreSQL database", "write postgres://USER@HOST/DATABASE", nil)
	}
	query := u.Query()
	config, err := secured(u, query)
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{
		"application_name": "kimbap", "search_path": home, "lock_timeout": lockWait,
		"statement_timeout": "2500", "idle_in_transaction_session_timeout": idleWait,
	} {
		if _, set := config.ConnConfig.RuntimeParams[key]; !set {
			config.ConnConfig.RuntimeParams[key] = value
		}
	}
	if !query.Has("default_query_exec_mode") {
		// Nothing of a statement stays with the server: a pooler may give the next one to
		// another of its connections.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if !query.Has("connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectWait
	}
	if !query.Has("pool_max_conns") {
		config.MaxConns = connections
	}
	if !query.Has("pool_max_conn_idle_time") {
		config.MaxConnIdleTime = quiet
	}
	return config, nil
}

// secured reads an address whose connections to other machines are verified, unless it
// says otherwise itself. Where they go is known only then: what the address leaves out the
// environment may say.
func secured(u *url.URL, query url.Values) (*pgxpool.Config, error) {
	mode := ""
	for _, word := range query["sslmode"] {
		mode = cmp.Or(word, mode)
	}
	delete(query, "ssl") // of which it depends on the word what it means
	config, err := parsed(u, query, cmp.Or(mode, "verify-full"))
	if err != nil {
		return nil, err
	}
	switch near := local(config); {
	case near && mode == "":
		return parsed(u, query, "prefer")
	case !near && (mode == "prefer" || mode == "allow"):
		return nil, refused("with sslmode="+mode+" whoever is on the way decides whether another machine is spoken to over TLS",
			"leave sslmode out, or write verify-full; disable turns TLS off", nil)
	}
	return config, nil
}

// parsed reads an address with this sslmode. Of several servers it takes the one that
// takes writes: one that stands by may not have heard of a revocation.
func parsed(u *url.URL, query url.Values, mode string) (*pgxpool.Config, error) {
	query.Set("sslmode", mode)
	for again := false; ; again = true {
		whole := *u
		whole.RawQuery = query.Encode()
		config, err := pgxpool.ParseConfig(whole.String())
		if err != nil { // its text has the address, and so the password
			if file := (*fs.PathError)(nil); errors.As(err, &file) {
				return nil, refused("the file "+file.Path+" that it names cannot be read: "+file.Err.Error(), "correct the path, or who may read the file", errors.New("address withheld"))
			}
			return nil, refused("it, or a file or a parameter that it names, cannot be read", "write postgres://USER@HOST/DATABASE; percent-encode what a password has of / : @ ? #; check sslrootcert, sslmode and the other parameters", errors.New("address withheld"))
		}
		if again || query.Has("target_session_attrs") || len(servers(config)) < 2 {
			return config, nil
		}
		query.Set("target_session_attrs", "read-write")
	}
}

// server is one that an address names.
type server struct {
	host string
	port uint16
}

// String is HOST:PORT, or the folder of a socket.
func (s server) String() string {
	if strings.HasPrefix(s.host, "/") {
		return s.host
	}
	return net.JoinHostPort(s.host, portText(s.port))
}

// servers are those that an address names, each once.
func servers(config *pgxpool.Config) []server {
	c := config.ConnConfig
	all := []server{{c.Host, c.Port}}
	for _, other := range c.Fallbacks {
		if one := (server{other.Host, other.Port}); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// local reports whether the server is on this machine. Several are not.
func local(config *pgxpool.Config) bool {
	all := servers(config)
	ip, err := netip.ParseAddr(all[0].host)
	return len(all) == 1 && (strings.HasPrefix(all[0].host, "/") || all[0].host == "localhost" || err == nil && ip.IsLoopback())
}

// shown is the name of a database for a person: without user and password.
func shown(config *pgxpool.Config) string {
	return servers(config)[0].String() + "/" + config.ConnConfig.Database
}

func refused(why, fix string, err error) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "store.dsn is refused: " + why, Hint: fix, Err: err}
}
