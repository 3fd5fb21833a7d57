package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// Handler serves POST /mcp (streamable HTTP) and GET /healthz. Nothing is kept
// between requests: each shows its token, and there is no session to take over.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.known(fewTogether(sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return s.sdk },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true},
	))))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.o.Health(r.Context()); err != nil {
			http.Error(w, runtime.Unwell(err), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return s.guard(mux)
}

// HTTP is a server with limits for the Handler.
func (s *Server) HTTP() *http.Server {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	socket.Watch(server)
	return server
}

// guard refuses what a browser may have been made to send, and names that another
// machine may have been given.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeForbidden, Msg: "pages of a browser are not served here", Hint: "call it from a program"}, runtime.Asker{})
		case !loopback(r.Host):
			runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeMisdirected, Msg: "the request names another host", Hint: "use the address that kimbap printed at its start"}, runtime.Asker{})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// loopback reports whether a Host is an address of this machine alone, or localhost:
// a name that somebody else's DNS answers is neither.
func loopback(authority string) bool {
	host, _ := runtime.SplitAuthority(authority)
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// maxDropped is how much of a message that is too long is read, bytes: to end the connection
// of a client that still writes would take its answer from it.
const maxDropped = 4 * maxMessage

// fewTogether refuses batches of too many messages, members that stand twice and ids that no
// answer would have, as lines does. What says that it is longer than a message may be has no
// room (see enter), and none of it is kept.
func fewTogether(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxMessage {
			_, _ = io.CopyN(io.Discard, r.Body, maxDropped)
			http.Error(w, errLong.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		body, err := bodyOf(http.MaxBytesReader(w, r.Body, maxMessage), r.ContentLength)
		if has, is := r.Context().Value(roomKey{}).(*room); is {
			has.shrink(int64(len(body)))
		}
		switch long := (*http.MaxBytesError)(nil); {
		case errors.As(err, &long):
			http.Error(w, errLong.Error(), http.StatusRequestEntityTooLarge)
			return
		case err != nil:
			http.Error(w, "the message did not come whole", http.StatusBadRequest)
			return
		}
		if refused := misread(body); refused != nil {
			text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": refused})
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(text)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// atOnce is how long a message may be for which room is made before it has come, in bytes.
const atOnce = 16 << 10

// bodyOf reads a body of a length, -1 where that is not known.
func bodyOf(from io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > atOnce { // room for more only as it comes
		return io.ReadAll(from)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(from, body)
	return body, err
}

// misread is the error of what the SDK would read otherwise than others, answer under another
// id or have too much of, nil where there is nothing like that. What is no JSON the SDK refuses
// itself.
func misread(body []byte) *jsonrpc.Error {
	if tooMany(body) {
		return errBatch()
	}
	var all []json.RawMessage
	switch body = bytes.TrimSpace(body); {
	case !json.Valid(body):
		return nil
	case body[0] != '[':
		all = append(all, body)
	case json.Unmarshal(body, &all) != nil: // cannot be: it is a list
		return nil
	}
	_, _, refused := requestsOf(all)
	return refused
}

// tooMany reports whether a message is a batch of more than may be.
func tooMany(body []byte) bool {
	batch := json.NewDecoder(bytes.NewReader(body))
	if first, err := batch.Token(); err != nil || first != json.Delim('[') {
		return false
	}
	var one json.RawMessage
	for n := 0; batch.More(); n++ {
		if n == maxBatch {
			return true
		}
		if batch.Decode(&one) != nil {
			return false // the SDK says what is wrong
		}
	}
	return false
}

// known refuses whoever shows no valid token, before any of the protocol is read.
func (s *Server) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		token, err := runtime.Bearer(r.Header)
		var who runtime.Principal
		if err == nil {
			who, err = s.o.Identify(r.Context(), runtime.Caller{RequireToken: true, Token: token, Source: host})
		}
		if err == nil {
			err = socket.Keep(r.Context(), who.Owner())
		}
		var has *room
		if err == nil {
			has, err = s.long.enter(who.Owner(), r.ContentLength)
		}
		if err == nil {
			defer has.shrink(0)
			here := &stay{}
			defer here.end()
			ctx := context.WithValue(context.WithValue(r.Context(), stayKey{}, here), roomKey{}, has)
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		e := runtime.AsError(err)
		p := e.Problem()
		if e.Code == runtime.CodeUnauthenticated { // 407 is for proxies
			w.Header().Set("WWW-Authenticate", `Bearer realm="kimbap"`)
			p.Status, p.Hint = http.StatusUnauthorized, "send Authorization: Bearer TOKEN; the owner makes one with: kimbap token create --agent NAME --scope GLOB"
		}
		if e.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		}
		w.Header().Set("Content-Type", runtime.ProblemType)
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	})
}
