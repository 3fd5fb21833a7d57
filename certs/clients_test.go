package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// served is a server on loopback that shows one chain.
type served struct {
	what, name, port string
	good             bool // a client that believes to reach name must accept it
}

// show serves a leaf with the intermediate behind it until the test ends.
func show(t *testing.T, what, name string, good bool, chain *tls.Certificate) served {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*chain}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") }),
		ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return served{what, name, port, good}
}

// gallery is an authority and servers with its leaves: those that it makes, from
// intermediates of every size, and those that a thief of an intermediate could.
func gallery(t *testing.T) (roots string, all []served) {
	t.Helper()
	var many []string
	for i := range maxHosts {
		many = append(many, "a-rather-long-name-of-a-tenant-"+strconv.Itoa(i)+".service.example:443")
	}
	a := opened(t, Options{Dir: newDir(t), Sealer: newBox(t, 1), Clock: time.Now})
	if err := a.Permit([]string{"api.notes.test:443", "127.0.0.1:443", "127.0.0.2:443", "[::1]:443"}, many); err != nil {
		t.Fatal(err)
	}
	for _, authority := range []string{"api.notes.test:443", "127.0.0.1:443", "127.0.0.2:443", "[::1]:443", many[31]} {
		name, _, _ := net.SplitHostPort(authority)
		all = append(all, show(t, "our leaf", name, true, leaf(t, a, authority)))
		all = append(all, show(t, "our leaf for "+name, "other.test", false, leaf(t, a, authority)))
	}
	for _, f := range foreign() {
		is := issuerOf(t, a, f.by)
		made := forge(t, a, is, f.leaf())
		all = append(all, show(t, "a forged leaf for "+f.what+" by "+f.by, f.name, f.good,
			&tls.Certificate{Certificate: [][]byte{made.Raw, is.cert.Raw}, PrivateKey: a.leafKey}))
	}
	other := opened(t, Options{Dir: newDir(t), Sealer: newBox(t, 1), Clock: time.Now}, "api.notes.test:443")
	all = append(all, show(t, "another kimbap's leaf", "api.notes.test", false, leaf(t, other, "api.notes.test:443")))
	return a.CAFile(), all
}

// one makes a client of a command that checks one server at a time.
func one(argv func(s served, roots string) []string) func(t *testing.T, roots string, all []served) []string {
	return func(t *testing.T, roots string, all []served) []string {
		t.Helper()
		var out []string
		for _, s := range all {
			line := argv(s, roots)
			said, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput()
			var exit *exec.ExitError
			switch {
			case err == nil:
				out = append(out, "ok")
			case errors.As(err, &exit):
				out = append(out, "refused: "+strings.TrimSpace(string(said)))
			default:
				t.Fatalf("this test needs %s; install it with .ci/setup: %v", line[0], err)
			}
		}
		return out
	}
}

// program makes a client of a program that checks all servers in one run.
func program(argv ...string) func(t *testing.T, roots string, all []served) []string {
	return func(t *testing.T, roots string, all []served) []string {
		t.Helper()
		line := append(argv, roots)
		for _, s := range all {
			line = append(line, s.port, s.name)
		}
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s (is it installed? see .ci/setup): %v\n%s%s", argv[0], err, out, &said)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
}

func isAddress(name string) bool { _, err := netip.ParseAddr(name); return err == nil }

func withOpenSSL(s served, roots string) []string {
	line := []string{"openssl", "s_client", "-connect", "127.0.0.1:" + s.port, "-CAfile", roots, "-no-CApath", "-no-CAstore", "-x509_strict", "-verify_return_error", "-brief"}
	if isAddress(s.name) {
		return append(line, "-noservername", "-verify_ip", s.name)
	}
	return append(line, "-servername", s.name, "-verify_hostname", s.name)
}

func withGnuTLS(s served, roots string) []string {
	return []string{"gnutls-cli", "--x509cafile", roots, "--verify-hostname", s.name, "--port", s.port, "127.0.0.1"}
}

func withCurl(s served, roots string) []string {
	return []string{"curl", "-sS", "--noproxy", "*", "--cacert", roots, "--connect-to", "::127.0.0.1:" + s.port, "https://" + net.JoinHostPort(s.name, s.port) + "/"}
}

func withGo(t *testing.T, roots string, all []served) []string {
	t.Helper()
	text, err := os.ReadFile(roots)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	var out []string
	for _, s := range all {
		c, err := tls.Dial("tcp", "127.0.0.1:"+s.port, &tls.Config{RootCAs: pool, ServerName: s.name, MinVersion: tls.VersionTLS12})
		if err != nil {
			out = append(out, "refused: "+err.Error())
			continue
		}
		_ = c.Close()
		out = append(out, "ok")
	}
	return out
}

// Every client of the table verifies the chains that we serve, and refuses what
// somebody with the key of an intermediate could sign for another host.
func TestClientsAcceptOurLeavesAndRefuseForgedOnes_TL004(t *testing.T) {
	roots, all := gallery(t)
	scripts := filepath.Join("testdata", "clients")
	for name, client := range map[string]func(t *testing.T, roots string, all []served) []string{
		"go": withGo, "openssl": one(withOpenSSL), "gnutls": one(withGnuTLS), "curl": one(withCurl),
		"python": program("python3", filepath.Join(scripts, "check.py")),
		"node":   program("node", filepath.Join(scripts, "check.mjs")),
		"java":   program("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", filepath.Join(scripts, "Check.java")),
	} {
		t.Run(name, func(t *testing.T) {
			answers := client(t, roots, all)
			if len(answers) != len(all) {
				t.Fatalf("%d answers to %d questions: %q", len(answers), len(all), answers)
			}
			for i, s := range all {
				if good := answers[i] == "ok"; good != s.good {
					t.Errorf("%s, as %s: %s", s.what, s.name, answers[i])
				} else {
					t.Logf("%s, as %s: %s", s.what, s.name, answers[i])
				}
			}
		})
	}
}
