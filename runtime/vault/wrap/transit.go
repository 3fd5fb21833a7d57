package wrap

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// TransitOptions say where the transit engine of a HashiCorp Vault is.
type TransitOptions struct {
	Address   string // https://vault.example:8200; http for loopback only
	Mount     string // "transit"
	Key       string // name of the key there
	Namespace string // "": none
	Token     runtime.Secret
	CAFile    string // PEM of further roots; "": the system's alone
	Timeout   time.Duration
}

// Transit is a key service: the transit engine of a HashiCorp Vault, over its
// HTTP API. It follows no redirect, because a redirect would take the token along.
type Transit struct {
	o      TransitOptions
	base   string
	client *http.Client
}

var _ Cipher = (*Transit)(nil)

// NewTransit refuses what is missing, and an address in clear.
func NewTransit(o TransitOptions) (*Transit, error) {
	u, err := url.Parse(o.Address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, unavailable("write for example https://vault.example.com:8200", "master_key.transit.address is not the https URL of a Vault")
	}
	if o.Key == "" || o.Token.Empty() {
		return nil, unavailable("set master_key.transit.key and master_key.transit.token_file", "the transit engine needs the name of a key and a token")
	}
	roots, err := pool(o.CAFile)
	if err != nil {
		return nil, unavailable("give a PEM file", "master_key.transit.ca_file cannot be used: %v", err)
	}
	return &Transit{
		o: o, base: strings.TrimSuffix(u.String(), "/") + "/v1/" + strings.Trim(o.Mount, "/"),
		client: &http.Client{
			Timeout:       o.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
				DisableKeepAlives: true, ForceAttemptHTTP2: true,
			},
		},
	}, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// pool returns the system's roots and those of a file, nil for the system's alone.
func pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("it holds no certificate")
	}
	return roots, nil
}

// Wrap implements [Cipher].
func (t *Transit) Wrap(ctx context.Context, key runtime.Secret) ([]byte, error) {
	data, err := t.call(ctx, "encrypt", map[string]string{"plaintext": base64.StdEncoding.EncodeToString([]byte(key.Reveal()))})
	if err == nil && !strings.HasPrefix(data.Ciphertext, "vault:") {
		err = unavailable("look at the key in Vault", "the transit engine answered without a ciphertext")
	}
	return []byte(data.Ciphertext + "\n"), err
}

// Unwrap implements [Cipher].
func (t *Transit) Unwrap(ctx context.Context, wrapped []byte) (runtime.Secret, error) {
	data, err := t.call(ctx, "decrypt", map[string]string{"ciphertext": strings.TrimSpace(string(wrapped))})
	if err != nil {
		return runtime.Secret{}, err
	}
	plain, err := base64.StdEncoding.DecodeString(data.Plaintext)
	if err != nil || len(plain) == 0 {
		return runtime.Secret{}, unavailable("look at the key in Vault", "the transit engine answered without a key")
	}
	return runtime.NewSecret(string(plain)), nil
}

// transitData is what the engine answers, of what we read.
type transitData struct {
	Ciphertext string `json:"ciphertext"`
	Plaintext  string `json:"plaintext"`
}

func (t *Transit) call(ctx context.Context, verb string, body map[string]string) (transitData, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return transitData{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/"+verb+"/"+url.PathEscape(t.o.Key), bytes.NewReader(text))
	if err != nil {
		return transitData{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Vault-Request", "true")
	r.Header.Set("X-Vault-Token", t.o.Token.Reveal())
	if t.o.Namespace != "" {
		r.Header.Set("X-Vault-Namespace", t.o.Namespace)
	}
	answer, err := t.client.Do(r)
	if err != nil {
		return transitData{}, unavailable("check that Vault runs at that address, and its certificate", "the transit engine at %s cannot be reached: %v", t.o.Address, reached(err))
	}
	defer func() { _ = answer.Body.Close() }()
	out, err := io.ReadAll(io.LimitReader(answer.Body, maxWrapped))
	if err != nil {
		return transitData{}, unavailable("try again", "the transit engine's answer broke off")
	}
	if answer.StatusCode != http.StatusOK {
		return transitData{}, refused(verb, answer.StatusCode)
	}
	var said struct {
		Data transitData `json:"data"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return transitData{}, unavailable("check master_key.transit.address", "what answers at %s is no Vault", t.o.Address)
	}
	return said.Data, nil
}

// reached is an error of the client without the URL, which stands beside it.
func reached(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// refused says what a status of the API means. What the answer says is not
// repeated: it may quote the request.
func refused(verb string, status int) error {
	why, fix := fmt.Sprintf("it answered %d", status), "look into Vault's own log"
	switch status {
	case http.StatusBadRequest:
		why, fix = "it does not accept the request (400)", "use the key that wrapped this master key, and one that encrypts and decrypts"
	case http.StatusForbidden:
		why, fix = "it does not accept the token (403)", "give a token with update on "+verb+" of this key"
	case http.StatusNotFound:
		why, fix = "it does not know the key or the mount (404)", "check master_key.transit.mount and key"
	case http.StatusServiceUnavailable:
		why, fix = "it is sealed or in maintenance (503)", "unseal Vault"
	}
	return unavailable(fix, "the transit engine refuses to %s: %s", verb, why)
}
