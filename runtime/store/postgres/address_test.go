package postgres

import "testing"

// What goes to another machine goes over TLS that proves who answers, unless the address
// says otherwise; what the environment says of it does not count.
func TestTLSIsTheDefaultForOtherMachines(t *testing.T) {
	t.Setenv("PGSSLMODE", "disable")
	for address, want := range map[string]string{
		"postgres://u@db.example.com/k":                       "verified",
		"postgres://u@db.example.com,127.0.0.1/k":             "verified",
		"postgres://u@/k?host=db.example.com":                 "verified",
		"postgres://u@127.0.0.1/k?host=db.example.com":        "verified",
		"postgres://u@[2001:db8::1]/k":                        "verified",
		"postgres://u@db.example.com/k?sslmode=":              "verified",
		"postgres://u@db.example.com/k?sslmode=require":       "unverified",
		"postgres://u@db.example.com/k?sslmode=disable":       "clear",
		"postgres://u@127.0.0.1/k":                            "either",
		"postgres://u@localhost:5433/k":                       "either",
		"postgres://u@[::1]/k":                                "either",
		"postgres:///k?host=/run/postgresql":                  "clear",
		"postgres://u@127.0.0.1/k?sslmode=verify-full":        "verified",
		"postgresql://u@db.example.com/k?application_name=me": "verified",
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

// Whoever sets a limit in the address has it.
func TestTheAddressDecides(t *testing.T) {
	config, err := configure("postgres://u@127.0.0.1/k?search_path=other&lock_timeout=9&pool_max_conns=3&connect_timeout=7")
	if err != nil {
		t.Fatal(err)
	}
	p := config.ConnConfig.RuntimeParams
	if p["search_path"] != "other" || p["lock_timeout"] != "9" || p["statement_timeout"] != "2500" || config.MaxConns != 3 || config.ConnConfig.ConnectTimeout.Seconds() != 7 {
		t.Errorf("%v, %d connections, %s to connect", p, config.MaxConns, config.ConnConfig.ConnectTimeout)
	}
}
