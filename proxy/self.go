package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// approvalsPath is where a caller asks how its approval stands.
const approvalsPath = "/kimbap/approvals/"

// self answers requests to the proxy itself.
func (s *Server) self(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	id, approval := strings.CutPrefix(r.URL.Path, approvalsPath)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the proxy's own pages are read only", http.StatusMethodNotAllowed)
	case r.URL.Path == "/healthz":
		s.health(w, r)
	case r.URL.Path == "/kimbap/ca.pem":
		s.rootPEM(w)
	case r.URL.Path == "/kimbap/proxy.pac":
		s.autoConfig(w, r)
	case approval && s.o.Approval != nil && id != "" && !strings.Contains(id, "/"):
		s.approval(w, r, id)
	default:
		http.Error(w, "this is the kimbap proxy; it has no such page", http.StatusNotFound)
	}
}

// rootPEM gives clients the root to trust. There is none yet where the vault
// was locked before it was made.
func (s *Server) rootPEM(w http.ResponseWriter) {
	pem := s.o.RootPEM()
	if len(pem) == 0 {
		http.Error(w, "there is no certificate yet", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	_, _ = w.Write(pem)
}

// health says whether the proxy can work.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if s.o.Health != nil {
		if err := s.o.Health(r.Context()); err != nil {
			http.Error(w, runtime.Unwell(err), http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, runtime.Well(s.o.Notice))
}

// autoConfig is a proxy auto-config file that sends everything here, by the
// name the client reached us with, if it is one of ours.
func (s *Server) autoConfig(w http.ResponseWriter, r *http.Request) {
	address := r.Host
	if !ownName(address) {
		address = s.reachedAt(connOf(r.Context()))
	}
	w.Header().Set("Content-Type", "application/x-ns-proxy-autoconfig")
	_, _ = fmt.Fprintf(w, "function FindProxyForURL(url, host) {\n"+
		"  if (isPlainHostName(host) || host === \"127.0.0.1\" || host === \"[::1]\") return \"DIRECT\";\n"+
		"  return \"PROXY %s\";\n}\n", address)
}

// approval says how the caller's own approval stands. A page of some web site
// whose name was made to point at us is not answered.
func (s *Server) approval(w http.ResponseWriter, r *http.Request, id string) {
	if !ownName(r.Host) {
		runtime.WriteOwnProblem(w, &runtime.Error{
			Code: runtime.CodeMisdirected, Stage: runtime.StageSurface,
			Msg: "this page is served under the proxy's own address only", Hint: "use http://127.0.0.1 and the proxy's port",
		})
		return
	}
	c := connOf(r.Context())
	status, err := s.o.Approval(r.Context(), s.reader(c, r.Header), id)
	if err != nil {
		dismiss(c, w.Header(), runtime.AsError(err))
		runtime.WriteOwnProblem(w, runtime.AsError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(status)
}

// reader is who asks for one of the proxy's own pages. Its token may stand where ordinary
// clients show one to an origin server, in Authorization; in a request to be forwarded that
// field is for the upstream, and names nobody here. Proxy-Authorization, where it is shown
// as well, is what counts.
func (s *Server) reader(c *conn, h http.Header) runtime.Caller {
	if len(h["Proxy-Authorization"]) > 0 {
		return s.caller(c, h)
	}
	return s.caller(c, http.Header{"Proxy-Authorization": h["Authorization"]})
}

// approvalURL is where the caller of this listener sees how its approval stands.
func (s *Server) approvalURL(id string) string {
	return "http://" + s.Addr().String() + approvalsPath + id
}

// tellWhere has the caller of a request on c told of that page by an address that c
// came to, where the listener's own is all of them.
func (s *Server) tellWhere(c *conn, req *runtime.Request) {
	if s.everywhere.Load() && req.Caller.Via == nil {
		req.Results = func(id string) string { return "http://" + s.reachedAt(c) + approvalsPath + id }
	}
}

// reachedAt is the address by which the client of c reaches the proxy.
func (s *Server) reachedAt(c *conn) string {
	if s.everywhere.Load() {
		return c.raw.LocalAddr().String()
	}
	return s.Addr().String()
}

// isEverywhere reports whether who listens at an address does so on all of the machine's.
func isEverywhere(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsUnspecified()
}

// ownName reports whether host is an address or localhost: no name that
// somebody else's DNS could answer.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
