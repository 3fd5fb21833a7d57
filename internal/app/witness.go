package app

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/anchor"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// witnessAAD is what the key of the checkpoints is sealed with, so that no other
// sealed file of the home can take its place.
const witnessAAD = "audit checkpoint key"

// restfulAfter is how old the last checkpoint is before a short command makes
// one: it costs an fsync.
const restfulAfter = time.Minute

// lastWords is how long a process that ends waits for its last checkpoint to
// arrive elsewhere.
const lastWords = 3 * time.Second

func (a *App) openWitness() error {
	anchors, err := a.anchors()
	if err != nil {
		return err
	}
	for _, place := range anchors {
		if url, is := place.(anchor.URL); is {
			a.onClose(func(context.Context) error { url.Poster.Close(); return nil })
		}
	}
	a.witness, err = witness.New(witness.Options{
		Dir: a.auditDir(), Key: a.witnessKey, Clock: a.o.Clock, Own: a.trail, Anchors: anchors,
		Every: a.config.Current().Audit.Anchor.Every.Duration(), Keep: a.config.Current().Audit.Retention.Duration(),
		Forget: a.index.DropEntries, Old: a.forgetApprovals,
		OnError: func(err error) {
			if a.Locked() == nil { // else it waits for the key, and the lock has been said
				a.o.Log.Error().Err(err).Msg("audit checkpoint")
			}
		},
	})
	return err
}

// forgetApprovals removes what people were asked before then. What was left open is closed
// first: nobody may have looked at it since it was over.
func (a *App) forgetApprovals(ctx context.Context, before time.Time) error {
	var failed error
	if a.approvals != nil { // else this process ends before it could begin
		for _, tenant := range a.Tenants() {
			_, err := a.approvals.Sweep(ctx, tenant)
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(failed, a.store.DropApprovals(ctx, before))
}

// closeWitness signs the last checkpoint of a long-lived process. A short command
// makes one only when none was made for a while, or by a clock that was ahead.
func (a *App) closeWitness(ctx context.Context) error {
	if a.o.Slot == "" {
		info, err := os.Stat(checkpoint.In(a.auditDir()).Path)
		if a.vault.Locked() || err == nil && a.o.Clock().Sub(info.ModTime()).Abs() < restfulAfter {
			return nil // without a key, the next one that has it names these records too
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	_ = a.witness.Close(ctx) // it was logged; what the process was to do is done
	return nil
}

// segmentAge lets whole segments become old one by one.
func (a *App) segmentAge() time.Duration {
	return min(a.config.Current().Audit.Retention.Duration()/8, 24*time.Hour)
}

// anchors builds the places outside the home that checkpoints go to. Nothing of them is
// open before one is sent there.
func (a *App) anchors() (out []witness.Anchor, err error) {
	c := a.config.Current().Audit.Anchor
	if c.File != "" {
		out = append(out, anchor.File{Path: c.File})
	}
	if len(c.Command) > 0 {
		out = append(out, anchor.Command{Words: c.Command, Env: []string{"PATH=" + a.env["PATH"], "HOME=" + a.env.UserDir()}})
	}
	if c.URL != "" {
		poster, err := a.poster(c.URL, c.Token)
		if err != nil {
			return nil, err
		}
		out = append(out, anchor.URL{Poster: poster})
	}
	return out, nil
}

// witnessKey opens the key of the checkpoints, and makes one for a home that has
// none. A home with checkpoints and without their key gets no other: its
// checkpoints would look like those of a stranger.
func (a *App) witnessKey() (ed25519.PrivateKey, error) {
	path := filepath.Join(a.auditDir(), "checkpoint.key")
	sealed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := os.Stat(checkpoint.In(a.auditDir()).Path); serr == nil {
			return nil, &runtime.Error{
				Code: runtime.CodeAuditUnavailable, Stage: runtime.StageAudit, Err: err,
				Msg:  fmt.Sprintf("%s is missing, so no checkpoint can be signed", path),
				Hint: "put the file back, or keep the old trail elsewhere: move the audit folder away",
			}
		}
		sealed, err = a.newWitnessKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("key of the checkpoints: %w", err)
	}
	seed, err := a.vault.Master().Open(sealed, []byte(witnessAAD))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer clear(seed)
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s: %w", path, vault.ErrTampered)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// newWitnessKey seals a new key into a file and returns what the file holds: of
// two processes that try, one is first.
func (a *App) newWitnessKey(path string) ([]byte, error) {
	var seed [ed25519.SeedSize]byte
	_, _ = rand.Read(seed[:]) // never fails since Go 1.24
	defer clear(seed[:])
	sealed, err := a.vault.Master().Seal(seed[:], []byte(witnessAAD))
	if err != nil {
		return nil, err
	}
	if err := vault.WriteOnce(path, sealed); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// AnchorTrail signs a checkpoint over all writers and sends it to every anchor.
func (a *App) AnchorTrail(ctx context.Context) (checkpoint.Signed, error) {
	if err := a.trail.Flush(ctx); err != nil {
		return checkpoint.Signed{}, err
	}
	return a.witness.Sign(ctx, true)
}

// Unsent reports that a checkpoint of [App.AnchorTrail] did not arrive at every place; what
// else it says is of the trail.
func Unsent(err error) bool { return errors.Is(err, witness.ErrUnsent) }

// Unsound reports that [App.AnchorTrail] could not sign some of the trail as it is.
func Unsound(err error) bool { return errors.Is(err, witness.ErrUnsound) }

// Anchors names the places that checkpoints are sent to.
func (a *App) Anchors() []string {
	places, err := a.anchors()
	if err != nil {
		return nil
	}
	names := []string{}
	for _, p := range places {
		names = append(names, p.Name())
	}
	return names
}

// VerifyTrail checks the hash chain of every writer, and the ends against the
// checkpoints of the home, of audit.anchor.file, and of the files given.
func (a *App) VerifyTrail(ctx context.Context, files ...string) (proof.Report, error) {
	return a.VerifyFolder(ctx, a.auditDir(), files...)
}

// VerifyFolder is [App.VerifyTrail] for a copy of the audit folder.
func (a *App) VerifyFolder(ctx context.Context, dir string, files ...string) (proof.Report, error) {
	if _, err := os.ReadDir(dir); dir != a.auditDir() && err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return proof.Report{}, errata.Invalid(&errata.Unreadable{File: dir, Err: err}, "check the path")
		}
		return proof.Report{}, errata.NotThere("there is no folder "+dir, err)
	}
	trust := proof.Trust{}
	if own := a.config.Current().Audit.Anchor.File; own != "" && len(files) == 0 {
		if _, err := os.Stat(own); errors.Is(err, fs.ErrNotExist) {
			trust.Anchors = append(trust.Anchors, proof.Outside{Name: own, Missing: true})
		} else {
			files = []string{own}
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return proof.Report{}, errata.Invalid(&errata.Unreadable{File: file, Err: err}, "kimbap audit verify --anchor FILE")
		}
		trust.Anchors = append(trust.Anchors, proof.Outside{Name: file, Data: data})
	}
	if key := a.provenKey(ctx); key != nil {
		trust.Key = key.Public().(ed25519.PublicKey)
	}
	report, err := proof.Verify(ctx, dir, trust)
	if err == nil && dir != a.auditDir() && holdsNone(report) {
		return proof.Report{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "there is no record of a trail in " + runtime.Quote(dir),
			Hint: "give --dir a copy of the whole audit folder, in which cli, proxy and run are",
		}
	}
	return report, err
}

// holdsNone says that nothing was there to check, and nothing that tells of records: a
// copy that failed is not one that verifies.
func holdsNone(report proof.Report) bool {
	_, bad := report.First()
	return !bad && !slices.ContainsFunc(report.Slots, func(s proof.SlotReport) bool { return s.Records > 0 })
}

// provenKey is the key of the checkpoints if the vault can be opened and there is
// one. Nothing is made: a trail is looked at also where nothing may be written.
func (a *App) provenKey(ctx context.Context) ed25519.PrivateKey {
	if _, err := os.Stat(filepath.Join(a.auditDir(), "checkpoint.key")); err != nil {
		return nil
	}
	if a.reachVault(ctx) != nil {
		return nil
	}
	key, err := a.witnessKey()
	if err != nil {
		return nil
	}
	return key
}
