//go:build bench

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The two other processes of the benchmark: the upstream, and a client that
// costs so little that it hides nothing.

const benchHost = "api.bench.test"

// loadResult is what a load process says, as one line of JSON.
type loadResult struct {
	Requests, Errors int
	Elapsed          time.Duration
	P50, P99         int64 // nanoseconds
	FirstError       string
}

func (r loadResult) rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

func TestBenchUpstream(t *testing.T) {
	if os.Getenv("KIMBAP_BENCH") != "upstream" {
		t.Skip("a process of TestBench")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, DNSNames: []string{benchHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("KIMBAP_BENCH_CA"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"id":"1","name":"` + strings.Repeat("x", 160) + `"}`)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", ln.Addr())
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"},
	}}
	t.Fatal(server.ServeTLS(ln, "", ""))
}

func TestBenchLoad(t *testing.T) {
	if os.Getenv("KIMBAP_BENCH") != "load" {
		t.Skip("a process of TestBench")
	}
	roots, err := os.ReadFile(os.Getenv("KIMBAP_BENCH_CA"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	connections, _ := strconv.Atoi(os.Getenv("KIMBAP_BENCH_C"))
	window, _ := time.ParseDuration(os.Getenv("KIMBAP_BENCH_D"))

	var mu sync.Mutex
	var latencies []int64
	var result loadResult
	var group sync.WaitGroup
	start := time.Now()
	for range connections {
		group.Go(func() {
			mine, err := drive(pool, start.Add(window))
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, mine...)
			if err != nil {
				result.Errors++
				result.FirstError = err.Error()
			}
		})
	}
	group.Wait()
	result.Requests, result.Elapsed = len(latencies), time.Since(start)
	if slices.Sort(latencies); len(latencies) > 0 {
		result.P50, result.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	}
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
}

// drive sends one request after the other on one connection until the end.
func drive(pool *x509.CertPool, end time.Time) ([]int64, error) {
	conn, err := reach(pool)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request := []byte("GET /items/1 HTTP/1.1\r\nHost: " + benchHost + "\r\nAccept: application/json\r\n\r\n")
	answers := bufio.NewReaderSize(conn, 4096)
	var latencies []int64
	for time.Now().Before(end) {
		start := time.Now()
		if _, err := conn.Write(request); err != nil {
			return latencies, err
		}
		if err := skipAnswer(answers); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(start).Nanoseconds())
	}
	return latencies, nil
}

// reach connects to the upstream, through the proxy when there is one.
func reach(pool *x509.CertPool) (net.Conn, error) {
	address, proxy := os.Getenv("KIMBAP_BENCH_UPSTREAM"), os.Getenv("KIMBAP_BENCH_PROXY")
	if proxy != "" {
		address = proxy
	}
	raw, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(time.Minute))
	if proxy != "" {
		fmt.Fprintf(raw, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n", benchHost, benchHost)
		head := make([]byte, 0, 512)
		for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
			if _, err := raw.Read(one); err != nil {
				return nil, err
			}
		}
		if !bytes.Contains(head[:min(len(head), 15)], []byte(" 200")) {
			return nil, fmt.Errorf("CONNECT: %s", head)
		}
	}
	conn := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: benchHost, NextProtos: []string{"http/1.1"}})
	return conn, conn.Handshake()
}

// skipAnswer reads one answer of status 200 whole.
func skipAnswer(r *bufio.Reader) error {
	length, first := -1, true
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first:
			if !bytes.Contains(line, []byte(" 200 ")) {
				return fmt.Errorf("answer: %s", line)
			}
			first = false
		case len(line) == 2:
			if length < 0 {
				return errors.New("an answer without a length")
			}
			_, err := r.Discard(length)
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		default:
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
			}
		}
	}
}
