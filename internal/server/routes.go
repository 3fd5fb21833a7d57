package server

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// visit is one identified request.
type visit struct {
	who    runtime.Principal
	caller runtime.Caller
	id     string
}

// route is a handler of an identified caller's request.
type route func(w http.ResponseWriter, r *http.Request, a visit) error

// execPath is the page that takes scripts.
const execPath = "/v1/exec"

// routes are all pages of the server.
func (s *Server) routes() chi.Router {
	r := chi.NewRouter()
	r.Use(s.guard)
	r.NotFound(s.handle(func(http.ResponseWriter, *http.Request) error { return s.noPage() }))
	r.MethodNotAllowed(s.handle(s.wrongMethod))
	r.Get("/healthz", s.health)
	r.Get("/v1/openapi.json", s.description)
	r.Post(execPath, s.as("", s.exec))
	r.Get("/v1/exec/{id}", s.as("", s.status))
	r.Post("/v1/exec/{id}/resume", s.as("", s.resume))
	if s.o.Agent != nil {
		s.agentRoutes(r)
	}
	if s.o.Lender != nil {
		s.lendRoutes(r)
	}
	if s.o.Shutdown != nil {
		s.daemonRoutes(r)
	}
	if s.o.Operator != nil {
		s.operatorRoutes(r)
	}
	return r
}

func (s *Server) agentRoutes(r chi.Router) {
	r.Get("/openapi.json", s.description)
	r.Get("/readyz", s.health)
	if s.o.Metrics != nil {
		r.Get("/metrics", s.as(runtime.RoleOperator, s.counts))
	}
	r.Get("/v1/services", s.as("", s.services))
	r.Get("/v1/actions", s.as("", s.actions))
	r.Get("/v1/actions/{service}/{action}", s.as("", s.action))
	r.Post("/v1/actions/{service}/{action}:execute", s.as("", s.execute))
	r.Get("/v1/tools", s.as("", s.tools))
	r.Get("/v1/tools/search", s.as("", s.search))
	r.Get("/v1/tools/advice", s.as("", s.advice))
	r.Get("/v1/approvals", s.as("", s.approvals))
	r.Get("/v1/approvals/{id}", s.as("", s.approval))
	r.Post("/v1/approvals/{id}:result", s.as("", s.collect))
}

// daemonRoutes are the short names on the socket of a daemon.
func (s *Server) daemonRoutes(r chi.Router) {
	r.Get("/health", s.health)
	r.Post("/call", s.as("", s.call))
	r.Post("/exec", s.as("", s.exec))
	r.Post("/shutdown", s.identified("", s.shutdown)) // which ends all that is in its way
}

// shutdown ends the daemon, for the owner's own programs: a token is an agent's.
func (s *Server) shutdown(w http.ResponseWriter, _ *http.Request, a visit) error {
	if !a.caller.Token.Empty() || !a.caller.Peer.Owner {
		return &runtime.Error{Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Msg: "only the owner ends the daemon, and shows no token"}
	}
	w.WriteHeader(http.StatusAccepted)
	s.o.Shutdown()
	return nil
}

func (s *Server) operatorRoutes(r chi.Router) {
	r.Post("/v1/approvals/{id}:accept", s.as(runtime.RoleOperator, s.accept))
	r.Post("/v1/approvals/{id}:reject", s.as(runtime.RoleOperator, s.reject))
	r.Post("/v1/approvals/{id}:revoke", s.as(runtime.RoleOperator, s.endStanding))
	r.Get("/v1/standing", s.as(runtime.RoleOperator, s.standing))
	r.Get("/v1/audit", s.as(runtime.RoleOperator, s.audit))
	r.Get("/v1/tokens", s.as(runtime.RoleOperator, s.tokens))
	r.Post("/v1/tokens", s.as(runtime.RoleOperator, s.mint))
	r.Delete("/v1/tokens/{id}", s.as(runtime.RoleOperator, s.revoke))
	r.Get("/v1/vault", s.as(runtime.RoleOperator, s.secrets))
	r.Put("/v1/vault/{name}", s.as(runtime.RoleAdmin, s.setSecret))
	r.Delete("/v1/vault/{name}", s.as(runtime.RoleAdmin, s.removeSecret))
	r.Get("/v1/policy", s.as(runtime.RoleOperator, s.policy))
	r.Put("/v1/policy", s.as(runtime.RoleAdmin, s.setPolicy))
}

// as is identified, for one of so many requests that the caller may have at a time.
func (s *Server) as(role string, f route) http.HandlerFunc {
	return s.identified(role, func(w http.ResponseWriter, r *http.Request, a visit) error {
		if err := socket.Keep(r.Context(), a.who.Owner()); err != nil {
			return err
		}
		return f(w, r, a)
	})
}

// identified identifies the caller and asks for a role, "" for none, before anything of
// the request is looked at.
func (s *Server) identified(role string, f route) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) (err error) {
		a := visit{id: w.Header().Get(requestID)}
		defer func() { s.logEnd(r, a, err) }()
		if a.caller, err = s.caller(r); err == nil {
			a.who, err = s.o.Identify(r.Context(), a.caller)
		}
		if err != nil {
			if runtime.CodeOf(err) == runtime.CodeUnauthenticated { // the doorman counts those without a token as well
				return s.door.refuse(err)
			}
			return err
		}
		if role != "" && !a.who.May(role) {
			return &runtime.Error{
				Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Msg: "this needs a token with the role " + role,
				Hint: "the owner makes one with: kimbap token create --agent NAME --scope GLOB --role " + role,
			}
		}
		return f(w, r, a)
	})
}

// plain reports whether a path is written in its only form: what the router
// matches is then what everything else reads.
func plain(r *http.Request) bool {
	p := r.URL.Path
	return r.URL.RawPath == "" && strings.HasPrefix(p, "/") && path.Clean(p) == p && !strings.ContainsAny(p, ";\\\x00")
}

// unhurried lifts the limit on the time of reading from a request that was read: what
// follows may wait for a person.
func unhurried(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// serviceAction is the action that a path names.
func serviceAction(r *http.Request) string {
	return chi.URLParam(r, "service") + "." + chi.URLParam(r, "action")
}

// detachedFor is how long what goes on without its caller may take: the longest wait for a
// person, and what is done after it. A key is kept for longer, so that nothing is begun again
// under it that has not ended.
const detachedFor = 2 * maxWait

// detached is a context that the caller's leaving does not end, for at most detachedFor.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), detachedFor)
}
