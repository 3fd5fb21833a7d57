package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/certs/stores"
	"github.com/kimbap-run/kimbap/internal/truststore"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/services"
)

// rotateOverlap is how long clients are told to trust the root before the new
// one too. Running proxies take the new one up within a second; the rest of the
// day is for one that was stopped, or cannot be reached.
const rotateOverlap = 24 * time.Hour

// CA opens the local authority on first use; commands that need no certificate
// never touch its key. It is asked for again after an error. The bundle for programs
// keeps the roots that [App.TakeRoots] has put there: a proxy that cron starts knows
// nothing of what a user has in a shell.
func (a *App) CA(ctx context.Context) (*certs.Authority, error) {
	a.authority.Lock()
	defer a.authority.Unlock()
	if a.authority.ca != nil {
		return a.authority.ca, nil
	}
	if why := a.Locked(); why != nil && a.vault.Locked() {
		return nil, why // the authority would take its own key for a broken one
	}
	ca, err := a.newCA()
	if err == nil {
		err = ca.Open(ctx)
	}
	if err == nil {
		err = ca.RefreshBundle(ca.BundleFile())
	}
	if err != nil {
		return nil, a.ofAuthority(err)
	}
	a.authority.ca = ca
	return ca, nil
}

// ShownCA is [App.CA] for what shows the certificate and signs nothing: with a closed
// vault too, once there is a root.
func (a *App) ShownCA(ctx context.Context) (*certs.Authority, error) {
	ca, err := a.CA(ctx)
	if err == nil || a.Locked() == nil || !a.vault.Locked() {
		return ca, err
	}
	shown, newErr := a.newCA()
	if newErr != nil {
		return nil, newErr
	}
	switch open := shown.OpenToShow(ctx); {
	case errors.Is(open, fs.ErrNotExist):
		return nil, err // why none can be made
	case open != nil:
		return nil, a.ofAuthority(open)
	}
	return shown, a.ofAuthority(shown.RefreshBundle(shown.BundleFile()))
}

// TakeRoots makes the bundle for programs from this environment's SSL_CERT_FILE, or from
// the system's roots where that is unset. It is for the commands by which a user says
// what his programs have.
func (a *App) TakeRoots(ctx context.Context) error {
	ca, err := a.ShownCA(ctx)
	if err != nil {
		return err
	}
	return a.ofAuthority(ca.RefreshBundle(a.env["SSL_CERT_FILE"]))
}

// ofAuthority gives what is wrong with a file of the authority a fix: without one it would
// be told as a defect of kimbap.
func (a *App) ofAuthority(err error) error {
	var bad *certs.FileError
	if !errors.As(err, &bad) {
		return err
	}
	e := &runtime.Error{Code: runtime.CodeInternal, Msg: bad.File + ": " + bad.Msg, Hint: bad.Fix, Err: bad.Err}
	if named := a.env["SSL_CERT_FILE"]; named != "" && bad.File == named { // the user's own
		e.Code = runtime.CodeInvalidInput
	}
	if e.Hint == "" {
		e.Hint = "let this user read and write " + filepath.Dir(bad.File) + " and what is in it"
	}
	return e
}

// ofRotation is ofAuthority for a rotation. One that replaced the root and was not finished
// says so: the next one would drop the root that clients have.
func (a *App) ofRotation(err error) error {
	var half *certs.UnfinishedError
	if !errors.As(err, &half) {
		return a.ofAuthority(err)
	}
	why := runtime.AsError(a.ofAuthority(half.Err))
	told := "the root was replaced, SHA-256 " + half.New + " signs from now on"
	if half.Old != "" {
		told += ", and " + half.Old + " no more"
	}
	return &runtime.Error{
		Code: why.Code, Msg: told + "; what clients read of it was not all written: " + why.Msg,
		Hint: "mend that, then kimbap env, which writes it; no second rotation, it would drop the old root. " + why.Hint, Err: half.Err,
	}
}

func (a *App) newCA() (*certs.Authority, error) {
	return certs.New(certs.Options{
		Dir: a.home.CA(), Sealer: a.vault.Master(), Clock: a.o.Clock, AnyHost: a.interceptsAll(),
	})
}

// interceptsAll reports whether the tunnels of foreign hosts are opened too.
func (a *App) interceptsAll() bool { return a.config.Current().Proxy.Intercept == "all" }

// signing is the authority that a proxy signs with: that of a run, or the home's
// own, which a locked vault opens later.
type signing struct {
	a  *App
	ca *certs.Authority // nil: the home's
}

func (s signing) open() (*certs.Authority, error) {
	if s.ca != nil {
		return s.ca, nil
	}
	return s.a.CA(context.Background())
}

// Leaf fails as long as the authority cannot be opened.
func (s signing) Leaf(authority string) (*tls.Certificate, error) {
	ca, err := s.open()
	if err != nil {
		return nil, err
	}
	return ca.Leaf(authority)
}

// RootPEM is what clients have been told to trust, also while its key cannot be
// opened; nil when there is none yet.
func (s signing) RootPEM() []byte {
	if ca, err := s.open(); err == nil {
		return ca.RootPEM()
	}
	pem, err := os.ReadFile(filepath.Join(s.a.home.CA(), "ca.pem"))
	if err != nil {
		return nil
	}
	return pem
}

// permit tells the authority the hosts of each service, before the proxy
// intercepts them. What goes wrong leaves hosts without a certificate, which
// the proxy refuses, and shows in status and log.
func (s signing) permit(hosts ...[]string) {
	ca, err := s.open()
	if err != nil {
		return // locked: nothing is intercepted
	}
	s.a.authorityProblem(ca.Permit(hosts...), "no certificates for some hosts")
}

// authorityProblem remembers what is wrong with the authority, nil for nothing,
// and logs it when it is new.
func (a *App) authorityProblem(err error, msg string) {
	if err == nil {
		a.uncertified.Store(nil)
		return
	}
	text := err.Error()
	if before := a.uncertified.Swap(&text); before == nil || *before != text {
		a.o.Log.Error().Err(err).Msg(msg)
	}
}

// permits says why no certificate can be made for an authority, nil when one can.
func (s signing) permits(authority string) error {
	ca, err := s.open()
	if err != nil || ca.Permits(authority) {
		return err
	}
	e := &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonNotCertified, Stage: runtime.StageSurface,
		Msg:  fmt.Sprintf("no certificate can be made for %s: the authority of this proxy does not permit it", authority),
		Hint: "kimbap doctor",
	}
	if ca.CAFile() == "" {
		e.Msg = fmt.Sprintf("no certificate can be made for %s: its service came after this run began, and the run has forgotten the key of its root", authority)
		e.Hint = "restart this run"
	}
	return e
}

// refreshCA takes up a root that `kimbap ca rotate` has made.
func (a *App) refreshCA(s signing) {
	ca, err := s.open()
	if err != nil {
		return
	}
	before := ca.Fingerprint()
	changed, err := ca.Refresh()
	if err != nil {
		a.authorityProblem(err, "the new root of the authority cannot be used")
		a.writeState()
		return
	}
	if !changed && !a.bundleOwed.Load() {
		return
	}
	if err = ca.RefreshBundle(ca.BundleFile()); err == nil {
		err = a.refreshTrust(ca.BundleFile())
	}
	a.bundleOwed.Store(err != nil) // it is tried again at the next look
	a.authorityProblem(err, "the bundle of roots cannot be written")
	a.writeState()
	if now := ca.Fingerprint(); now != before {
		a.o.Log.Info().Str("fingerprint", now).Msg("took up a new root")
		a.trail.Note(record.Event{Kind: "ca.reload", Principal: "kimbap", Fields: map[string]string{"fingerprint": now}})
	}
}

// Anchoring is a change of the machine's trust stores that was thought through and
// not made yet.
type Anchoring = truststore.Anchoring

// trustStores are those of this machine, for the home.
func (a *App) trustStores() truststore.Keeper {
	return truststore.Keeper{
		Home: a.home, User: a.env.UserDir(), Java: a.env["JAVA_HOME"], Env: a.o.Env,
		CA: a.CA, Services: func() []*services.Service { return a.Services().Services() },
		Record: func(ctx context.Context, kind string, fields map[string]string) error {
			put := a.trail.Event
			if kind == truststore.Uninstalls {
				put = a.inLedger
			}
			return put(ctx, record.Event{Kind: kind, Principal: a.Operator().ID, Fields: fields})
		},
	}
}

// PlanInstall says how the root comes into trust stores, by the words of [truststore.Keeper.PlanInstall].
func (a *App) PlanInstall(ctx context.Context, words []string) (*Anchoring, error) {
	return a.trustStores().PlanInstall(ctx, words)
}

// PlanUninstall says how what was installed goes out of its stores again; with
// words only out of those.
func (a *App) PlanUninstall(words []string) (*Anchoring, error) {
	return a.trustStores().PlanUninstall(words)
}

// Anchor does what was planned, store by store, and records it.
func (a *App) Anchor(ctx context.Context, p *Anchoring) error { return a.trustStores().Anchor(ctx, p) }

// Anchored are the roots of this home that were put into stores of the machine.
func (a *App) Anchored() ([]stores.Entry, error) { return a.trustStores().Anchored() }

// Rotated is what RotateCA did.
type Rotated struct {
	Fingerprint string     `json:"fingerprint"`
	NotAfter    time.Time  `json:"not_after"`
	Old         string     `json:"old_fingerprint,omitempty"`
	OldUntil    *time.Time `json:"old_trusted_until,omitempty"`   // nil: not trusted any more
	Dropped     string     `json:"dropped_fingerprint,omitempty"` // of an earlier rotation, whose day was not over
	CA          string     `json:"ca"`
	Bundle      string     `json:"bundle"`
	Proxies     []Running  `json:"proxies"`             // which take the new root up within a second
	Installed   []string   `json:"installed,omitempty"` // stores of the machine that hold an older root: kind:place
}

// RotateCA puts a new root in the place of the home's, for all proxies that run
// over it. With now, clients are told to forget the old one at once, else in a day.
func (a *App) RotateCA(ctx context.Context, now bool) (Rotated, error) {
	overlap := rotateOverlap
	if now {
		overlap = 0
	}
	ca, err := a.newCA()
	if err != nil {
		return Rotated{}, err
	}
	var done certs.Rotation
	event := record.Event{Kind: "ca.rotate", Principal: a.Operator().ID, Fields: map[string]string{"overlap": overlap.String()}}
	err = a.within(ctx, event, func() (err error) {
		if done, err = ca.Rotate(ctx, overlap); err == nil {
			if err = a.refreshTrust(ca.BundleFile()); err != nil {
				err = &certs.UnfinishedError{Rotation: done, Err: err}
			}
		}
		return a.ofRotation(err)
	})
	if err != nil {
		return Rotated{}, err
	}
	out := Rotated{
		Fingerprint: ca.Fingerprint(), NotAfter: ca.Root().NotAfter, Old: done.Old, Dropped: done.Dropped,
		CA: ca.CAFile(), Bundle: ca.BundleFile(), Proxies: append([]Running{}, a.Proxies()...),
	}
	installed, err := a.Anchored()
	if err != nil {
		return Rotated{}, err
	}
	for _, e := range installed {
		out.Installed = append(out.Installed, e.Word())
	}
	if !done.Until.IsZero() {
		out.OldUntil = &done.Until
	}
	return out, nil
}
