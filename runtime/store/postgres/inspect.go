package postgres

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Inspection is how a database stands.
type Inspection struct {
	Name     string `json:"database"`              // HOST:PORT/DATABASE, of several servers the first
	Server   string `json:"server_version"`        // as the server says it
	TLS      string `json:"tls"`                   // protocol version; "": the connection is in clear
	Verified bool   `json:"tls_verified"`          // the server proved by its certificate that it is the named one
	Size     int64  `json:"size_bytes"`            // of the tables, what others keep in the database left out
	Version  int    `json:"schema_version"`        // of the tables; 0: there are none
	Newest   int    `json:"newest_schema_version"` // that this program knows

	Servers  []string `json:"servers,omitempty"`     // HOST:PORT of each, where the address names several
	Answered string   `json:"answered_by,omitempty"` // ADDRESS:PORT of the one of them that did
}

// Inspect looks at a database and changes nothing.
func Inspect(ctx context.Context, o Options) (Inspection, error) {
	db, err := connect(ctx, o)
	if err != nil {
		return Inspection{}, err
	}
	defer func() { _ = db.Close() }()
	texts, err := migrations()
	if err != nil {
		return Inspection{}, err
	}
	out := Inspection{Name: db.name, Newest: len(texts)}
	err = db.query(ctx, "look at the database", `SELECT current_setting('server_version'),
		coalesce((SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()), ''),
		(SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class
			WHERE relkind = 'r' AND relnamespace = to_regnamespace(current_schema()))`, nil,
		func(r tables.Row) error { return r.Scan(&out.Server, &out.TLS, &out.Size) })
	if err != nil {
		return Inspection{}, err
	}
	if out.Version, err = db.version(ctx); err != nil {
		return Inspection{}, err
	}
	peer, err := db.peer(ctx)
	if err != nil {
		return Inspection{}, err
	}
	if over, ok := peer.(*tls.Conn); ok {
		out.Verified = len(over.ConnectionState().VerifiedChains) > 0 // none of them with verify-ca, which asks for no name
	}
	if all := servers(db.pool.Config()); len(all) > 1 {
		for _, one := range all {
			out.Servers = append(out.Servers, one.String())
		}
		out.Answered = peer.RemoteAddr().String()
	}
	return out, nil
}

// peer is the connection to the server that is spoken to now, to be looked at.
func (db *DB) peer(ctx context.Context) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := db.pool.Acquire(bounded)
	if err != nil {
		return nil, db.fault(ctx, "look at the server", err)
	}
	defer conn.Release()
	return conn.Conn().PgConn().Conn(), nil
}
