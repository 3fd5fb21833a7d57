package connected

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxLentRoots is how many certificates a server may have its programs trust: two
// roots, while one takes over, and some room.
const maxLentRoots = 4

// lentRoot is what a server has the programs behind its proxy trust: certificates,
// and with pins only those that have one of these fingerprints; and the services
// there with a port of their own.
func lentRoot(ctx context.Context, there *remote.Client, pins []string) (root []byte, authorities []string, err error) {
	text, authorities, err := there.Proxy(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case len(pins) > 0:
		if root, err = pinned("the server", text, pins); err == nil {
			err = signsWith("the server", text, root)
		}
	default:
		root, err = roots(text)
	}
	return root, authorities, err
}

// roots are the certificates of a PEM text that can sign others. There are at least
// one and at most maxLentRoots of them.
func roots(text []byte) ([]byte, error) {
	var out bytes.Buffer
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" || !cert.IsCA {
			continue
		}
		if n++; n > maxLentRoots {
			break
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
	if n == 0 || n > maxLentRoots {
		return nil, &runtime.Error{
			Code: runtime.CodeUpstreamTLS, Msg: "the server shows no certificate that its programs could trust", Hint: "on its machine: kimbap ca show",
		}
	}
	return out.Bytes(), nil
}

// maxRootPEM bounds what is read of a proxy's root, in bytes: two of them, while one
// takes over.
const maxRootPEM = 64 << 10

// askRoot asks a proxy for what its programs must trust, showing it the user of its
// URL, if that has one. The question goes to that address itself: past the proxies of
// this environment, and nowhere that an answer leads.
func askRoot(ctx context.Context, proxy *url.URL) ([]byte, error) {
	at := *proxy
	at.User = nil
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("kimbap/ca.pem").String(), nil)
	if err != nil {
		return nil, err
	}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		req.SetBasicAuth(proxy.User.Username(), password)
		req.Header["Proxy-Authorization"] = req.Header["Authorization"]
		delete(req.Header, "Authorization")
	}
	client := http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRootPEM))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answered %s", answer.Status)
	}
	return text, err
}

// signsWith refuses pinned roots without the first of those that were sent, which is the one
// that signs: after a rotation the old one is still among them, and verifies nothing.
func signsWith(who string, sent, pinned []byte) error {
	first, _ := pem.Decode(sent)
	for block, rest := pem.Decode(pinned); block != nil; block, rest = pem.Decode(rest) {
		if first != nil && bytes.Equal(first.Bytes, block.Bytes) {
			return nil
		}
	}
	e := &runtime.Error{Code: runtime.CodeUpstreamTLS, Msg: who + " has a new root, and the one that is pinned signs nothing any more"}
	if first != nil {
		sum := sha256.Sum256(first.Bytes)
		e.Msg += ": " + hex.EncodeToString(sum[:])
	}
	e.Hint = "compare the new one with what its own machine says, then pin it too: kimbap ca show --jq .fingerprint"
	return e
}

// pinned returns the certificates of a PEM text, which who has sent, that have one of
// the fingerprints.
func pinned(who string, text []byte, pins []string) ([]byte, error) {
	var wanted []string
	for _, pin := range pins {
		wanted = append(wanted, strings.ToLower(strings.ReplaceAll(strings.TrimSpace(pin), ":", "")))
	}
	var out bytes.Buffer
	var seen []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		sum := sha256.Sum256(block.Bytes)
		print := hex.EncodeToString(sum[:])
		if block.Type != "CERTIFICATE" {
			continue
		}
		seen = append(seen, print)
		if slices.Contains(wanted, print) {
			if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
				return nil, err
			}
		}
	}
	if out.Len() > 0 {
		return out.Bytes(), nil
	}
	e := &runtime.Error{
		Code: runtime.CodeUpstreamTLS, Msg: who + " shows another certificate than the one that is pinned: " + strings.Join(seen, ", "),
		Hint: "compare with what its own machine says: kimbap ca show --jq .fingerprint",
	}
	if len(seen) == 0 {
		e.Msg = "the proxy shows no certificate"
	}
	return nil, e
}
