package postgres

import (
	"os"
	"path/filepath"
	"testing"
)

// What goes to another machine goes over TLS that proves who answers, unless the address
// says otherwise; what the environment says of it does not count.
func TestTLSIsTheDefaultForOtherMachines(t *testing.T) {
	t.Setenv("PGSSLMODE", "disable")
	for address, want := range map[string]string{
		"postgres://u@db.example.com/k":                          "verified",
		"postgres://u@db.example.com,127.0.0.1/k":                "verified",
		"postgres://u@/k?host=db.example.com":                    "verified",
		"postgres://u@127.0.0.1/k?host=db.example.com":           "verified",
		"postgres://u@[2001:db8::1]/k":                           "verified",
		"postgres://u@db.example.com/k?sslmode=":                 "verified",
		"postgres://u@db.example.com/k?sslmode=require":          "unverified",
		"postgres://u@db.example.com/k?sslmode=disable":          "clear",
		"postgres://u@127.0.0.1/k":                               "either",
		"postgres://u@localhost:5433/k":                          "either",
		"postgres://u@[::1]/k":                                   "either",
		"postgres:///k?host=/run/postgresql":                     "clear",
		"postgres://u@127.0.0.1/k?sslmode=verify-full":           "verified",
		"postgresql://u@db.example.com/k?application_name=me":    "verified",
		"postgres://u@db.example.com/k?ssl=1":                    "verified",
		"postgres://u@db.example.com/k?ssl=true":                 "verified",
		"postgres://u@db.example.com/k?ssl=1&sslmode=require":    "unverified",
		"postgres://u@db.example.com/k?sslmode=require&sslmode=": "unverified",
		"postgres://u@127.0.0.1/k?ssl=true":                      "either",
	} {
		config, err := configure(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		got, c := "clear", config.ConnConfig
		switch {
		case c.TLSConfig != nil && !c.TLSConfig.InsecureSkipVerify:
			got = "verified"
		case c.TLSConfig != nil && len(c.Fallbacks) > 0:
			got = "either"
		case c.TLSConfig != nil:
			got = "unverified"
		}
		for _, f := range c.Fallbacks {
			if got == "verified" && (f.TLSConfig == nil || f.TLSConfig.InsecureSkipVerify) {
				got = "verified with a way around"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// Where the address leaves the host out the environment or a service file names it, which
// may be another machine.
func TestTLSIsTheDefaultWhereverTheHostIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(file, []byte("[far]\nhost=db.example.com\nsslmode=disable\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGSERVICEFILE", file)
	for name, address := range map[string]string{"PGHOST": "postgres:///k?application_name=me", "PGSERVICE": "postgres:///k", "": "postgres:///k?service=far"} {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "PGHOST":
				t.Setenv(name, "db.example.com")
			case "PGSERVICE":
				t.Setenv(name, "far")
			}
			config, err := configure(address)
			if err != nil {
				t.Fatal(err)
			}
			c := config.ConnConfig
			if c.Host != "db.example.com" || c.TLSConfig == nil || c.TLSConfig.InsecureSkipVerify || c.TLSConfig.ServerName != c.Host || len(c.Fallbacks) > 0 {
				t.Errorf("%s: to %s over %+v, or else %d others", address, c.Host, c.TLSConfig, len(c.Fallbacks))
			}
		})
	}
}

// A mode in which a stranger on the way decides whether there is TLS is for one's own
// machine.
func TestAModeThatMayLeaveTLSOutIsRefused(t *testing.T) {
	for address, refused := range map[string]bool{
		"postgres://u@db.example.com/k?sslmode=prefer":          true,
		"postgres://u@db.example.com/k?sslmode=allow":           true,
		"postgres://u@127.0.0.1,db.example.com/k?sslmode=allow": true,
		"postgres://u@127.0.0.1/k?sslmode=prefer":               false,
		"postgres:///k?host=/run/postgresql&sslmode=allow":      false,
	} {
		if _, err := configure(address); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Of several servers the one that takes writes is meant: one that stands by answers with
// what it knows, which may lack a revocation.
func TestOfSeveralServersOneTakesWrites(t *testing.T) {
	for address, chooses := range map[string]bool{
		"postgres://u@db1.example.com,db2.example.com/k":                          true,
		"postgres://u@db1.example.com:5432,db2.example.com:5433/k":                true,
		"postgres://u@db1.example.com,db2.example.com/k?target_session_attrs=any": false,
		"postgres://u@db1.example.com/k":                                          false,
	} {
		config, err := configure(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if (config.ConnConfig.ValidateConnect != nil) != chooses {
			t.Errorf("%s: it chooses: %v", address, !chooses)
		}
		for _, f := range config.ConnConfig.Fallbacks {
			if f.TLSConfig.ServerName != f.Host {
				t.Errorf("%s: %s has to prove to be %s", address, f.Host, f.TLSConfig.ServerName)
			}
		}
	}
}

// Whoever sets a limit in the address has it.
func TestTheAddressDecides(t *testing.T) {
	config, err := configure("postgres://u@127.0.0.1/k?search_path=other&lock_timeout=9&pool_max_conns=3&connect_timeout=7")
	if err != nil {
		t.Fatal(err)
	}
	p := config.ConnConfig.RuntimeParams
	if p["search_path"] != "other" || p["lock_timeout"] != "9" || p["statement_timeout"] != "2500" || p["idle_in_transaction_session_timeout"] != "3000" || config.MaxConns != 3 || config.ConnConfig.ConnectTimeout.Seconds() != 7 {
		t.Errorf("%v, %d connections, %s to connect", p, config.MaxConns, config.ConnConfig.ConnectTimeout)
	}
}
