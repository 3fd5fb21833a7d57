package app

import (
	"context"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/internal/evaluator"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/neighbours"
	"github.com/kimbap-run/kimbap/internal/notices"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/waiting"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/command"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// core is what an App and the seats of its operators have in common: the home, and the stages
// over it. It is set while the App is opened, and read after that.
type core struct {
	o      Options
	home   Home
	env    outfit.Environment
	config *config.Live

	store     store
	index     history.Index               // of the trail, in the home
	shared    *postgres.DB                // the store, where several homes share one; nil: it is in the home
	homeName  string                      // of the home among those
	toStore   func(context.Context) error // opens it behind OpenToRead
	indexless *runtime.Error              // why OpenToRead has no database; nil: it has
	storeless *runtime.Error              // why there is no store, with Options.Storeless; nil: there is one
	vault     *vault.Vault
	move      *moveMade            // of the master key, before this App was opened; nil: none
	connector *connector.Connector // stage 4, over the vault
	identity  *identity.Identity
	policy    *policy.Live
	limiter   *limit.Limiter
	services  *services.Live
	approvals *approval.Desk
	notices   *notices.Board // of approval.notify; nil without
	trail     *audit.Log
	crowded   *crowd.Trail // the trail, for requests
	witness   *witness.Witness
	guard     *egress.Live
	rest      *rest.Backend
	tunnel    *proxy.Tunnel
	command   *command.Backend
	pipeline  *runtime.Pipeline
	metrics   *server.Metrics // nil for a short command

	waiting    *waiting.Room        // who waits here for a person
	forms      *scrub.Cache         // of stored values, to take them out of what is shown
	self       *home.Self           // this process, in approvals
	evaluator  *evaluator.Evaluator // of the jq expressions of service files
	neighbours *neighbours.Circle   // who else runs over this home and those that share its store
}
