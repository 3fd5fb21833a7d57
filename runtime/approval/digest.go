package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime/approval/canon"
)

// lengths joins parts with the length of each before it, so that no two lists
// of parts have one encoding.
func lengths(parts ...string) []byte {
	var b []byte
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// digest is the hex SHA-256 of exactly what is asked. It fails for arguments
// that have no canonical form.
func (f *dossier) digest() (string, error) { return f.digestIn(canon.JSON) }

// formerDigest is the digest that an earlier kimbap took of the request.
func (f *dossier) formerDigest() (string, error) { return f.digestIn(canon.Former) }

func (f *dossier) digestIn(form formOfJSON) (string, error) {
	args, err := canon.Append(nil, f.askedArgs())
	if err != nil {
		return "", err
	}
	kind, body := bodyForm(f.HeldRequest, form)
	parts := []string{
		"kimbap approval 3", string(f.terms()), string(f.Tenant), f.Principal, string(f.Action), f.Definition,
		f.Target.Scheme, f.Target.Authority, f.Target.Method, f.Target.Path,
		string(args), kind, string(boundFields(f.Header, unbound)), body,
	}
	sum := sha256.Sum256(lengths(f.withLogin(parts)...))
	return hex.EncodeToString(sum[:]), nil
}

// askedArgs are the arguments that an approval is for.
func (f *dossier) askedArgs() map[string]any {
	if len(f.Unbound) == 0 {
		return f.Args
	}
	asked := maps.Clone(f.Args)
	for _, name := range f.Unbound {
		delete(asked, name)
	}
	return asked
}

// withLogin adds an own login in place of the stored key: nothing else is done by a yes for it.
// Without one the parts are those of before there was this.
func (f *dossier) withLogin(parts []string) []string {
	if f.Sum == "" {
		return parts
	}
	return append(parts, "login", f.Sum)
}

// terms is the one form of what the rule demands of an approval: a question that
// was answered under weaker terms is another one.
func (f *dossier) terms() []byte {
	by := slices.Sorted(slices.Values(f.Terms.By))
	return lengths(append(by, strconv.Itoa(max(1, f.Terms.Count)), strconv.Itoa(strength(f.Terms.Presence)))...)
}

// boundFields is the one form of the header fields that an approval is for. Any
// field can change what a request does (the account it acts on, a condition, a
// version), so all are bound but those left out.
func boundFields(header http.Header, leftOut func(name string) bool) []byte {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if !leftOut(name) {
			parts = append(parts, name, strconv.Itoa(len(header[name])))
			parts = append(parts, header[name]...)
		}
	}
	return lengths(parts...)
}

// unbound reports fields that say nothing of what is asked, or that clients
// change by themselves when they try again.
func unbound(name string) bool {
	switch name = strings.ToLower(name); name {
	case "user-agent", "accept-encoding", "accept-language", "connection", "content-length", "date", "expect", "te",
		"traceparent", "tracestate", "baggage", "sentry-trace", "x-request-id", "x-correlation-id", "x-client-request-id",
		"x-amzn-trace-id", "x-cloud-trace-context", "idempotency-key", "x-idempotency-key",
		"x-stainless-retry-count", "x-stripe-client-telemetry":
		return true
	}
	return strings.HasPrefix(name, "x-b3-")
}

// passing reports fields that a yes for longer than once is not bound to: beside those of
// unbound, what clients make anew for each body or part of one, time, try or trace, and
// conditions, which can only keep a request from being done. With them it would hold for nothing.
func passing(name string) bool {
	if unbound(name) {
		return true
	}
	switch name = strings.ToLower(name); name {
	case "content-type", "content-encoding", "content-range", "content-md5", "content-digest", "repr-digest", "digest", "transfer-encoding", "trailer",
		"range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "sec-websocket-key", "x-amz-decoded-content-length",
		"x-goog-api-client", "x-goog-gcs-idempotency-token", "client-request-id", "paypal-request-id",
		"grpc-encoding", "grpc-timeout", "grpc-trace-bin", "x-amz-content-sha256", "x-amz-date", "x-ms-date", "x-goog-hash",
		"amz-sdk-invocation-id", "amz-sdk-request", "request-id", "correlation-id", "x-ms-client-request-id", "x-trace-id",
		"b3", "uber-trace-id", "newrelic", "elastic-apm-traceparent":
		return true
	}
	return strings.HasPrefix(name, "x-datadog-") || strings.HasPrefix(name, "x-amz-checksum-")
}

// formOfJSON returns the one form of a document and what it says, or that it has none.
type formOfJSON func(data []byte) (form []byte, value any, err error)

// bodyForm returns how the body is compared, and the hex SHA-256 of that form.
func bodyForm(h HeldRequest, of formOfJSON) (form, hash string) {
	if h.Built {
		return "built", ""
	}
	form, data := "raw", h.Body
	if isJSON(h.Header) {
		if canonical, _, err := of(h.Body); err == nil {
			form, data = "json", canonical
		}
	}
	sum := sha256.Sum256(data)
	return form, hex.EncodeToString(sum[:])
}

// isJSON reports whether the body says of itself that it is JSON in UTF-8, as
// it stands.
func isJSON(header http.Header) bool {
	if len(header.Values("Content-Encoding")) > 0 || len(header.Values("Content-Type")) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return false
	}
	charset := params["charset"]
	return (media == "application/json" || strings.HasSuffix(media, "+json")) &&
		(charset == "" || strings.EqualFold(charset, "utf-8"))
}
