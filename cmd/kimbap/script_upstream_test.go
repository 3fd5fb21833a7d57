package main

import (
	"compress/gzip"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// notesAPI is the API of testdata/notes.yaml: it wants the credential, remembers
// what it was asked, and answers.
type notesAPI struct {
	dir string // of the script: /files/NAME is a file of it
	mu  sync.Mutex
	got strings.Builder
}

// apis are the running ones, by script.
var apis sync.Map

func startUpstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: upstream [HOST...]")
	}
	api := &notesAPI{dir: ts.MkAbs(".")}
	server := httptest.NewUnstartedServer(api)
	hosts := append([]string{"example.com"}, args...)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{selfSigned(ts, hosts)}}
	server.StartTLS()
	ts.Defer(server.Close)
	apis.Store(ts, api)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.TLS.Certificates[0].Certificate[0]})
	ts.Check(os.WriteFile(ts.MkAbs("upstream.pem"), cert, 0o644))
	for _, name := range []string{"notes.yaml", "lists.yaml"} {
		service, err := os.ReadFile(filepath.Join(ts.Getenv("TESTDATA"), name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), service, 0o644))
	}
	home := ts.Getenv("KIMBAP_HOME")
	ts.Check(os.MkdirAll(home, 0o700))
	resolve := ""
	for _, host := range hosts {
		resolve += fmt.Sprintf("    %q: %q\n", host+":443", strings.TrimPrefix(server.URL, "https://"))
	}
	ts.Check(os.WriteFile(filepath.Join(home, "config.yaml"), fmt.Appendf(nil, "upstream:\n  ca_file: %s\n  resolve:\n%s", ts.MkAbs("upstream.pem"), resolve), 0o600))
}

// selfSigned is a certificate for some hosts, valid today.
func selfSigned(ts *testscript.TestScript, hosts []string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: hosts, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// received writes one line for each request: method, target, credential
// (masked) and body.
func received(ts *testscript.TestScript, neg bool, args []string) {
	api, ok := apis.Load(ts)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: received FILE, after upstream")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(api.(*notesAPI).take()), 0o644))
}

func (n *notesAPI) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.got.Reset()
	return n.got.String()
}

func (n *notesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/files/never" {
		<-r.Context().Done()
		return
	}
	if r.URL.Path == "/never" { // and says that its client has gone
		<-r.Context().Done()
		n.mu.Lock()
		fmt.Fprintln(&n.got, "GET /never ended")
		n.mu.Unlock()
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
		http.ServeFile(w, r, filepath.Join(n.dir, filepath.Base(name)))
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/redirect/"); ok {
		http.Redirect(w, r, strings.ReplaceAll(name, "!", "/"), http.StatusFound)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/oauth/") {
		n.provide(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	key := "no key"
	switch r.Header.Get("Authorization") {
	case "":
	case "Bearer " + canary:
		key = "the key"
	default:
		key = "another key"
	}
	n.mu.Lock()
	fmt.Fprintln(&n.got, strings.TrimSpace(fmt.Sprintf("%s %s (%s) %s", r.Method, r.RequestURI, key, body)))
	n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if key != "the key" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"message":"bad credentials"}`)
		return
	}
	n.answer(w, r, body)
}

// provide answers as an OAuth provider: it gives the key as a token for an hour, to the client
// named wrong another one, and takes back nothing of the one named deaf.
func (n *notesAPI) provide(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	n.mu.Lock()
	fmt.Fprintln(&n.got, strings.TrimSpace(strings.Join([]string{r.Method, r.URL.Path, r.PostForm.Get("grant_type"), r.PostForm.Get("token")}, " ")))
	n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	client, _, _ := r.BasicAuth()
	if client == "" {
		client = r.PostForm.Get("client_id")
	}
	switch {
	case r.URL.Path == "/oauth/revoke" && client == "deaf":
		w.WriteHeader(http.StatusServiceUnavailable)
	case client == "wrong" && r.PostForm.Get("grant_type") != "":
		fmt.Fprint(w, `{"access_token":"not-the-key","refresh_token":"refresh-wrong","token_type":"Bearer","expires_in":3600}`)
	case r.URL.Path == "/oauth/device":
		fmt.Fprint(w, `{"device_code":"device-code","user_code":"WDJB-MJHT","verification_uri":"https://login.example.com/activate","expires_in":60,"interval":1}`)
	case r.PostForm.Get("refresh_token") == "taken away":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
	case client == "unknown":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client","error_description":"words of the provider"}`)
	default:
		fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"refresh-1","token_type":"Bearer","expires_in":3600}`, canary)
	}
}

func (n *notesAPI) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/pulls"):
		fmt.Fprint(w, `[{"number":7,"title":"Rice","state":"open","user":{"login":"octo"},"html_url":"https://github.com/owner/repo/pull/7"}]`)
	case path == "/v1/refunds":
		fmt.Fprintf(w, `{"object":"refund","form":%q}`, body)
	case path == "/sleep":
		<-r.Context().Done()
	case strings.HasPrefix(path, "/status/"):
		status, _ := strconv.Atoi(strings.TrimPrefix(path, "/status/"))
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":"the API said %d"}`, status)
	case path == "/notes/missing":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"not found"}`)
	case path == "/notes/mirror":
		// An API that shows the caller its own credential.
		_ = json.NewEncoder(w).Encode(map[string]string{"you_sent": r.Header.Get("Authorization")})
	case strings.HasPrefix(path, "/packed/"):
		squeezed(w, strings.TrimPrefix(path, "/packed/"))
	case strings.HasPrefix(path, "/list/"), strings.HasPrefix(path, "/hop/"):
		n.pages(w, r)
	case r.Method == http.MethodPost:
		_, _ = w.Write(body)
	case strings.HasPrefix(path, "/notes/"):
		fmt.Fprintf(w, `{"id":%q,"title":"one note"}`, strings.TrimPrefix(path, "/notes/"))
	default:
		fmt.Fprint(w, `[{"id":"1","title":"rice"},{"id":"2","title":"seaweed"}]`)
	}
}

// pages are three pages of two numbers each, and redirects.
func (n *notesAPI) pages(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	page = max(page, 1)
	items := fmt.Sprintf("[%d,%d]", 2*page-1, 2*page)
	switch r.URL.Path {
	case "/list/link": // the path of the next page is another one, as GitHub has it
		if page < 3 {
			w.Header().Set("Link", fmt.Sprintf(`<https://example.com/list/9/link?page=1>; rel="first", <https://example.com/list/9/link?page=%d&kind=%s>; rel="next last"`, page+1, r.URL.Query().Get("kind")))
		}
	case "/list/opaque", "/list/rest": // the next page is a path of its own
		if r.URL.Path == "/list/opaque" {
			w.Header().Set("Link", `</list/rest?after=xyz>; rel=next`)
		}
	case "/list/away":
		w.Header().Set("Link", `<https://elsewhere.example/list?page=2>; rel=next`)
	case "/list/endless":
		w.Header().Set("Link", `</list/endless>; rel=next`)
	case "/list/cursor", "/list/whole":
		next := ""
		if page < 3 {
			next = strconv.Itoa(page + 1)
		}
		items = fmt.Sprintf(`{"items":%s,"meta":{"next":%q}}`, items, next)
	case "/list/page":
		if page > 3 {
			items = "[]"
		}
	case "/hop/same":
		http.Redirect(w, r, "/notes/moved", http.StatusMovedPermanently)
		return
	case "/hop/made":
		http.Redirect(w, r, "/notes/made", http.StatusSeeOther)
		return
	case "/hop/again":
		http.Redirect(w, r, "/notes", http.StatusTemporaryRedirect)
		return
	case "/hop/round":
		http.Redirect(w, r, "/hop/round", http.StatusFound)
		return
	case "/hop/away":
		http.Redirect(w, r, "https://elsewhere.example/?signature=abc", http.StatusFound)
		return
	case "/hop/wipe":
		http.Redirect(w, r, "/admin", http.StatusFound)
		return
	}
	fmt.Fprint(w, items)
}

// squeezed answers in a content coding, although nobody asked for one.
func squeezed(w http.ResponseWriter, coding string) {
	const list = `[{"id":"1","title":"rice"}]`
	text, _, _ := strings.Cut(coding, "-") // gzip-404, gzip-endless
	w.Header().Set("Content-Encoding", text)
	if strings.HasSuffix(coding, "-404") {
		w.WriteHeader(http.StatusNotFound)
	}
	var out io.WriteCloser
	switch text {
	case "gzip":
		out = gzip.NewWriter(w)
	case "deflate":
		out = zlib.NewWriter(w)
	default: // says it and does not do it
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, list)
		return
	}
	if strings.HasSuffix(coding, "-endless") {
		for range 65 << 4 {
			_, _ = out.Write(make([]byte, 64<<10))
		}
	}
	fmt.Fprint(out, list)
	if strings.HasSuffix(coding, "-cut") {
		return
	}
	_ = out.Close()
}
