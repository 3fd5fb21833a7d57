package postgres

import (
	"context"

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
	over := db.pool.Config().ConnConfig.TLSConfig
	out.Verified = out.TLS != "" && over != nil && !over.InsecureSkipVerify // which verify-ca sets too: it asks for no name
	if out.Version, err = db.version(ctx); err != nil {
		return Inspection{}, err
	}
	if all := servers(db.pool.Config()); len(all) > 1 {
		for _, one := range all {
			out.Servers = append(out.Servers, one.String())
		}
		out.Answered, err = db.peer(ctx)
	}
	return out, err
}

// peer is the address of the server that is spoken to now.
func (db *DB) peer(ctx context.Context) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := db.pool.Acquire(bounded)
	if err != nil {
		return "", db.fault(ctx, "look at the server", err)
	}
	defer conn.Release()
	return conn.Conn().PgConn().Conn().RemoteAddr().String(), nil
}
