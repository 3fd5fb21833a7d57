package postgres

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
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
	idleWait    = "10000"                 // of a transaction of a process that hangs, in milliseconds
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
	if query.Get("sslmode") == "" && query.Get("ssl") == "" {
		query.Set("sslmode", "verify-full")
		if local(u.Hostname(), query.Get("host")) {
			query.Set("sslmode", "prefer")
		}
		u.RawQuery = query.Encode()
	}
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil { // its text has the address, and so the password
		return nil, refused("it cannot be read", "write postgres://USER@HOST/DATABASE; percent-encode what a password has of / : @ ? #", errors.New("address withheld"))
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

// local reports whether a server is on this machine. Several hosts are not.
func local(hosts ...string) bool {
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		if host != "" && !strings.HasPrefix(host, "/") && host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// shown is the name of a database for a person: without user and password.
func shown(config *pgxpool.Config) string {
	c := config.ConnConfig
	host := net.JoinHostPort(c.Host, portText(c.Port))
	if strings.HasPrefix(c.Host, "/") {
		host = c.Host
	}
	return host + "/" + c.Database
}

func refused(why, fix string, err error) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "store.dsn is refused: " + why, Hint: fix, Err: err}
}
