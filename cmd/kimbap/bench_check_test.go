//go:build bench

package main_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A figure is worth something when what was measured is what the row says, and
// when nobody else used the machine meanwhile. This file checks both.

// credentialField is where the upstream says whether a request had a credential.
const credentialField = "Bench-Credential"

// check asks for an item through the proxy and fails the run when the upstream
// did not see the credential that it should, or saw one that it should not. The
// certificate of the answer shows who opened the connection.
func (p *proxyProcess) check(t *testing.T, base, rootFile string, credential bool) {
	t.Helper()
	roots := x509.NewCertPool()
	data, err := os.ReadFile(rootFile)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(data)
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.address}), TLSClientConfig: &tls.Config{RootCAs: roots},
	}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get(base + "/items/1")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if seen := answer.Header.Get(credentialField); answer.StatusCode != http.StatusOK || seen != strconv.FormatBool(credential) {
		t.Fatalf("%s through the proxy: %s, credential seen: %s, should be: %t; %s", base, answer.Status, seen, credential, answer.Header.Get("Kimbap-Error"))
	}
}

// usage is processor time, ours and everybody's, at a moment.
type usage struct {
	at        time.Time
	ours, all time.Duration
}

// processors reads what the machine has worked so far, and what this process,
// those it has waited for and the given ones had of it.
func processors(t *testing.T, running []int) usage {
	t.Helper()
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	u := usage{at: time.Now()}
	for i, field := range strings.Fields(string(first))[1:9] {
		if ticks, _ := strconv.Atoi(field); i != 3 && i != 4 { // idle, and waiting for a disk
			u.all += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			t.Fatal(err)
		}
		u.ours += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for _, pid := range running {
		used, _ := processorTime(pid) // one that ended is among the children
		u.ours += used
	}
	return u
}

// others is the part of the machine that somebody else used between two moments.
func others(from, to usage) float64 {
	whole := to.at.Sub(from.at) * time.Duration(goruntime.NumCPU())
	return max(0, float64(to.all-from.all-(to.ours-from.ours))/float64(whole))
}

// muchOther is when a run should be repeated.
const muchOther = 0.10

func disturbance(share float64) string {
	said := fmt.Sprintf("Others used %.0f %% of the processors meanwhile", 100*share)
	if share > muchOther {
		said += "; repeat the run when the machine is quiet"
	}
	return said + "."
}
