//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// client is an unmodified HTTP client. It is started as
//
//	ARGV BASE CONTROL DIR CASE...
//
// and prints, below a line "== CASE", what it got:
//
//	get      a read with path arguments and a query      status, header, size, sha256 lines
//	hop      the same with hop-by-hop fields of its own
//	bare     the same without User-Agent and Accept
//	json     a JSON document                             form     a form
//	missing  404 of the upstream                         broken   500 of the upstream
//	reply    repeated header fields, a gzip body         down, up 10 MiB each way
//	reuse    100 reads: how many were ok, and how many connections the client made
//	stream   server-sent events, each acknowledged at CONTROL/ack?n=N, around kimbap
//
// Bodies are counted and hashed as they came, not decoded.
type client struct {
	name    string
	argv    []string
	cases   []string
	oneConn bool // keeps its connection
	missing error
	own     []string // what it needs in its environment without kimbap, to trust the upstream
}

func clients(t *testing.T, w *world) []client {
	t.Helper()
	file := func(name string) string {
		path, err := filepath.Abs(filepath.Join("testdata/clients", name))
		check(t, err)
		return path
	}
	usual := []string{"get", "json", "form", "missing", "broken", "reply", "down", "up", "reuse", "stream"}
	with := func(more ...string) []string { return append(more, usual...) }
	python := []string{"/usr/bin/python3", file("client.py")}
	java := []string{"java", "-XX:TieredStopAtLevel=1", "-cp", w.dir, "Client"}
	noJava := compiled(file("Client.java"), w.dir)
	own := w.ownSettings(t)
	return []client{
		{name: "curl", argv: []string{"sh", file("curl.sh")}, cases: with("hop", "bare"), oneConn: true, missing: installed("curl")},
		{name: "wget", argv: []string{"sh", file("wget.sh")}, cases: usual, missing: installed("wget"), own: own},
		{name: "urllib", argv: append(python, "urllib"), cases: usual, missing: library("urllib.request")},
		{name: "requests", argv: append(python, "requests"), cases: with("hop"), oneConn: true, missing: library("requests")},
		{name: "httpx", argv: append(python, "httpx"), cases: with("hop"), oneConn: true, missing: library("httpx")},
		{name: "aiohttp", argv: append(python, "aiohttp"), cases: usual, oneConn: true, missing: library("aiohttp")},
		{name: "ruby", argv: []string{"ruby", file("client.rb")}, cases: with("hop"), oneConn: true, missing: installed("ruby")},
		{name: "perl", argv: []string{"perl", file("client.pl")}, cases: usual, oneConn: true, missing: perlModule("LWP::Protocol::https"), own: []string{"PERL_LWP_SSL_CA_FILE=" + w.roots}},
		{name: "php", argv: []string{"php", file("client.php")}, cases: with("hop"), oneConn: true, missing: extension("curl"), own: own},
		{name: "java HttpClient", argv: append(java, "http"), cases: usual, oneConn: true, missing: noJava, own: own},
		{name: "java URLConnection", argv: append(java, "url"), cases: usual, oneConn: true, missing: noJava, own: own},
		{name: "undici", argv: []string{"node", file("undici.cjs")}, cases: usual, oneConn: true, missing: module("undici")},
		{name: "deno", argv: []string{binary("@deno/*/deno"), "run", "-A", file("fetch.mjs")}, cases: usual, missing: module("@deno/*/deno")},
		{name: "bun", argv: []string{binary("@oven/*/bin/bun"), file("fetch.mjs")}, cases: usual, oneConn: true, missing: module("@oven/*/bin/bun")},
		{name: "net-http", argv: []string{"goclient"}, cases: with(), oneConn: true}, // over HTTP/2 it refuses to send hop-by-hop fields
	}
}

// library reports why Python cannot import one, nil when it can.
func library(name string) error {
	if out, err := exec.Command("/usr/bin/python3", "-c", "import "+name).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// perlModule reports why Perl cannot load one, nil when it can.
func perlModule(name string) error {
	if out, err := exec.Command("perl", "-M"+name, "-e", "1").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// compiled puts the classes of a Java program into a folder.
func compiled(source, dir string) error {
	if out, err := exec.Command("javac", "-d", dir, source).CombinedOutput(); err != nil {
		return fmt.Errorf("javac: %w: %s", err, out)
	}
	return nil
}

// extension reports why PHP has none of this name, nil when it has.
func extension(name string) error {
	if out, err := exec.Command("php", "-r", "exit(extension_loaded($argv[1]) ? 0 : 1);", name).CombinedOutput(); err != nil {
		return fmt.Errorf("php without %s: %w: %s", name, err, out)
	}
	return nil
}

// module reports that Node's modules hold nothing of this pattern.
func module(pattern string) error {
	if binary(pattern) == "" {
		return fmt.Errorf("no %s in %s", pattern, undiciDir())
	}
	return nil
}

// binary is the first of Node's modules, or of the programs in them, of this
// pattern: the package is named after the platform.
func binary(pattern string) string {
	found, err := filepath.Glob(filepath.Join(undiciDir(), pattern))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

// ownSettings are what a person would set for the clients that take no variable
// with a PEM file, so that they trust the world without kimbap.
func (w *world) ownSettings(t *testing.T) []string {
	t.Helper()
	write := func(name, text string) string {
		path := filepath.Join(w.dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	store := filepath.Join(w.dir, "own.p12")
	if installed("keytool") == nil {
		out, err := exec.Command("keytool", "-importcert", "-noprompt", "-alias", "world", "-file", w.roots,
			"-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit").CombinedOutput()
		if err != nil {
			t.Fatalf("keytool: %v\n%s", err, out)
		}
	}
	return []string{
		"WGETRC=" + write("wgetrc", "ca_certificate = "+w.roots+"\n"),
		"PHP_INI_SCAN_DIR=:" + filepath.Dir(write("php/own.ini", "curl.cainfo = "+w.roots+"\n")),
		"JDK_JAVA_OPTIONS=-Djavax.net.ssl.trustStore=" + store + " -Djavax.net.ssl.trustStorePassword=changeit",
	}
}
