//go:build linux

package main

import (
	"bytes"
	"crypto/tls"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// A service on this machine is reached through the proxy by what otherwise leaves this
// machine out: curl by NO_PROXY, the JDK by a list of its own.
func TestClientsReachAServiceOfThisMachine(t *testing.T) {
	w := newWorld(t)
	stub := newAcme(t)
	text, err := os.ReadFile("testdata/clients/acme.yaml")
	check(t, err)
	all := clients(t, w)
	for _, scheme := range []string{"http", "https"} {
		here := &upstream{host: "127.0.0.1"}
		server := httptest.NewUnstartedServer(here.recorded(stub))
		t.Cleanup(server.Close)
		start := server.Start
		if scheme == "https" {
			server.TLS, start = &tls.Config{Certificates: []tls.Certificate{w.leaf(t, here.host)}}, server.StartTLS
		}
		start()
		h := w.newHome(t)
		service := h.user + "/here.yaml"
		h.write(t, service, bytes.ReplaceAll(text, []byte("https://api.acme.example"), []byte(server.URL)))
		h.kimbap(t, "", "service", "install", service)
		h.kimbap(t, acmeKey+"\n", "link", "acme", "--no-check")
		for _, c := range all {
			if c.name != "curl" && !strings.HasPrefix(c.name, "java") {
				continue
			}
			t.Run(scheme+" "+c.name, func(t *testing.T) {
				needProgram(t, c.missing)
				r := h.run(t, append(slices.Clone(c.argv), server.URL, stub.control.URL, h.user, "get")...)
				requests, _ := here.take()
				if len(requests) != 1 || requests[0].Header.Get("Authorization") != "Bearer "+acmeKey {
					t.Errorf("%d requests arrived with the key\n%s\n%s", len(requests), r.stdout, r.stderr)
				}
			})
		}
	}
}
