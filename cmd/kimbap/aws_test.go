//go:build linux

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The caller's own key pair of AWS. A signature covers the request, so it is
// the caller's to make: kimbap must not touch what is signed.
const (
	awsID     = "AKIAACMEEXAMPLE00001"
	awsSecret = "acme/of+the/callers+own/0123456789abcdef"
)

// signed lets requests through whose signature (AWS Signature Version 4) fits
// them, byte for byte.
func signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = checkSignature(r, body)
		}
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>%v</Message></Error>", err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func checkSignature(r *http.Request, body []byte) error {
	fields := map[string]string{}
	scheme, list, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for field := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	id, scope, _ := strings.Cut(fields["Credential"], "/")
	if scheme != "AWS4-HMAC-SHA256" || id != awsID {
		return fmt.Errorf("not signed by the caller: %s of %s", scheme, id)
	}
	text := canonical(r, fields["SignedHeaders"], body)
	key := []byte("AWS4" + awsSecret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	want := hex.EncodeToString(mac(key, fmt.Sprintf("%s\n%s\n%s\n%x", scheme, r.Header.Get("X-Amz-Date"), scope, sha256.Sum256([]byte(text)))))
	if got := fields["Signature"]; got != want {
		return fmt.Errorf("the signature is %s, and %s would fit\n%s", got, want, text)
	}
	if stated := r.Header.Get("X-Amz-Content-Sha256"); len(stated) == 64 && stated != fmt.Sprintf("%x", sha256.Sum256(body)) {
		return fmt.Errorf("the body is not the one that was signed")
	}
	return nil
}

// canonical is the text that a signature is made of.
func canonical(r *http.Request, signedHeaders string, body []byte) string {
	target, query, _ := strings.Cut(r.RequestURI, "?")
	pairs := []string{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		plain := func(s string) string {
			p, _ := url.QueryUnescape(s)
			return strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
		}
		if pair != "" {
			pairs = append(pairs, plain(name)+"="+plain(value))
		}
	}
	slices.Sort(pairs)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, target, strings.Join(pairs, "&"))
	for name := range strings.SplitSeq(signedHeaders, ";") {
		values := slices.Clone(r.Header.Values(name))
		if name == "host" {
			values = []string{r.Host}
		}
		for i := range values {
			values[i] = strings.Join(strings.Fields(textproto.TrimString(values[i])), " ")
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(values, ","))
	}
	digest := r.Header.Get("X-Amz-Content-Sha256")
	if digest == "" {
		digest = fmt.Sprintf("%x", sha256.Sum256(body))
	}
	return b.String() + "\n" + signedHeaders + "\n" + digest
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// aws answers the calls of testdata/clients/aws.py.
func aws(blob []byte) http.Handler {
	refuse := func(w http.ResponseWriter, status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>says the upstream</Message></Error>", code)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/" && r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "text/xml")
			fmt.Fprint(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Account>000000000042</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		case r.URL.Path == "/house/missing":
			refuse(w, http.StatusNotFound, "NoSuchKey")
		case r.URL.Path == "/house/broken":
			refuse(w, http.StatusInternalServerError, "InternalError")
		case r.Method == http.MethodPut:
			w.Header().Set("ETag", `"an-etag"`)
		default:
			w.Header().Set("X-Amz-Meta-Colour", "green")
			_, _ = w.Write(blob)
		}
	})
}

// TestSignaturesOfTheCallerStayValid runs boto3 straight to the upstream, through
// a tunnel, and through a service, whose requests kimbap opens and does not sign.
func TestSignaturesOfTheCallerStayValid(t *testing.T) {
	needProgram(t, library("boto3"))
	w := newWorld(t)
	data := blob()[:1<<20]
	u := w.serve(t, "s3.acme.example", signed(aws(data)))
	h := w.newHome(t)
	h.env = append(h.env, "AWS_ACCESS_KEY_ID="+awsID, "AWS_SECRET_ACCESS_KEY="+awsSecret)
	h.write(t, filepath.Join(h.user, "up.bin"), data)
	script, err := filepath.Abs("testdata/clients/aws.py")
	check(t, err)
	argv := []string{"/usr/bin/python3", script, "https://s3.acme.example", h.user}

	direct := h.exec(t, append(slices.Clone(h.env), "AWS_CA_BUNDLE="+w.roots), "", argv...)
	for _, want := range []string{"account 000000000042\n", "etag \"an-etag\"\n", "object 1048576 ", "missing 404 ", "broken 500 "} {
		if !strings.Contains(direct.stdout, want) {
			t.Fatalf("boto3 said\n%s%s\nwant %q", direct.stdout, direct.stderr, want)
		}
	}
	asked, _ := u.take()
	same := func(t *testing.T) {
		if through := h.run(t, argv...); through.stdout != direct.stdout {
			t.Errorf("boto3 said\n%s\nand without kimbap\n%s", through.stdout, direct.stdout)
		}
		got, _ := u.take()
		if len(got) != len(asked) {
			t.Fatalf("the upstream got %d requests, and %d without kimbap", len(got), len(asked))
		}
		for i := range got {
			if g, w := unsigned(got[i]), unsigned(asked[i]); g != w {
				t.Errorf("the upstream got\n%s\nand without kimbap\n%s", g, w)
			}
		}
	}
	t.Run("tunnelled", same)
	service := filepath.Join(h.user, "s3.yaml")
	for name, auth := range map[string]string{
		"opened, no key stored":   "{type: header, header: {name: Authorization}, credential_ref: s3.key}",
		"opened, the own is kept": "{type: header, header: {name: Authorization}, credential_ref: s3.kept, caller: keep}",
	} {
		h.write(t, service, fmt.Appendf(nil, awsService, auth))
		h.kimbap(t, "", "service", "install", "--yes", service)
		if strings.Contains(auth, "s3.kept") {
			h.kimbap(t, acmeKey+"\n", "link", "s3", "--no-check")
		}
		t.Run(name, same)
	}
	trail := h.kimbap(t, "", "audit", "search", "--action", "s3.*").stdout
	for _, want := range []string{"s3.read", "s3.write"} {
		if !strings.Contains(trail, want) {
			t.Errorf("the trail has no %s: the requests were not opened\n%s", want, trail)
		}
	}
	h.holdsNoKey(t, awsSecret, acmeKey)
}

// unsigned is a request without what is new in every signature.
func unsigned(r request) string {
	for _, name := range []string{"X-Amz-Date", "Amz-Sdk-Invocation-Id"} {
		r.Header.Del(name)
	}
	return r.text()
}

const awsService = `
name: s3
version: 1.0.0
description: Objects, under the caller's own signature
base_url: https://s3.acme.example
auth: %s
actions:
  read: {description: Any read, method: [GET, HEAD], path: /**, idempotent: true, allow_slash: true, risk: {level: low}}
  write: {description: Any write, method: [POST, PUT], path: /**, allow_slash: true, risk: {level: low}}
`
