package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// goclient is net/http as a client: goclient BASE CONTROL DIR CASE..., see
// clients_test.go for what each case does and prints.
func goclient() {
	log.SetFlags(0)
	base, control, dir, cases := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	c := newGoClient(base, control, dir)
	for _, name := range cases {
		fmt.Println("==", name)
		if err := c.cases()[name](); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
}

type goClient struct {
	base, control, dir string
	http               *http.Client
	made               atomic.Int64
}

func newGoClient(base, control, dir string) *goClient {
	c := &goClient{base: base, control: control, dir: dir}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	var dialer net.Dialer
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.made.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
	c.http = &http.Client{Transport: transport, Timeout: time.Minute}
	return c
}

func (c *goClient) cases() map[string]func() error {
	get := func(path string, headers ...string) func() error {
		return func() error { return c.call("GET", path, nil, headers...) }
	}
	own := "Authorization: Bearer the-clients-own"
	return map[string]func() error{
		"get":     get("/items/42/notes/a%20b?tag=x&tag=y&q=a+b", own, "Accept: application/json", "X-Trace: t-1", "Accept-Encoding: gzip"),
		"hop":     get("/items/7/notes/hop", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5"),
		"missing": get("/status/404"),
		"broken":  get("/status/500"),
		"reply":   get("/reply", "Accept-Encoding: gzip"),
		"down":    get("/blob"),
		"json": func() error {
			return c.call("POST", "/items", strings.NewReader(`{"name":"é","n":1.0}`), own, "Content-Type: application/json")
		},
		"form": func() error {
			return c.call("POST", "/forms", strings.NewReader("a=1&b=two+words&a=3"), "Content-Type: application/x-www-form-urlencoded")
		},
		"up":     c.up,
		"reuse":  c.reuse,
		"stream": c.stream,
	}
}

func (c *goClient) send(method, path string, body io.Reader, headers ...string) (*http.Response, error) {
	r, err := http.NewRequest(method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	return c.http.Do(r)
}

func (c *goClient) call(method, path string, body io.Reader, headers ...string) error {
	answer, err := c.send(method, path, body, headers...)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Println("status", answer.StatusCode)
	for name, values := range answer.Header {
		for _, value := range values {
			fmt.Println("header", strings.ToLower(name), value)
		}
	}
	digest := sha256.New()
	size, err := io.Copy(digest, answer.Body)
	if err != nil {
		return err
	}
	fmt.Printf("size %d\nsha256 %x\n", size, digest.Sum(nil))
	return nil
}

// up sends the file in chunks: net/http does not know the length of this reader.
func (c *goClient) up() error {
	data, err := os.ReadFile(c.dir + "/up.bin")
	if err != nil {
		return err
	}
	return c.call("POST", "/blob", io.MultiReader(bytes.NewReader(data)), "Content-Type: application/octet-stream")
}

func (c *goClient) reuse() error {
	before, ok := c.made.Load(), 0
	for n := 1; n <= 100; n++ {
		answer, err := c.send("GET", fmt.Sprintf("/items/%d/notes/n", n), nil)
		if err != nil {
			return err
		}
		if answer.StatusCode == http.StatusOK {
			ok++
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	fmt.Printf("ok %d\nconnections %d\n", ok, c.made.Load()-before)
	return nil
}

func (c *goClient) stream() error {
	answer, err := c.send("GET", "/stream", nil, "Accept: text/event-stream")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		n, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		fmt.Println("event", n)
		ack, err := c.http.Get(c.control + "/ack?n=" + n)
		if err != nil {
			return err
		}
		ack.Body.Close()
	}
	return lines.Err()
}
