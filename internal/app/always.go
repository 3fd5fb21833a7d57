package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/policy/graft"
)

// AlwaysRule returns the policy rule that would allow requests like one that
// waits: the same action by the same agent, as far as the rule that asked is about
// them. Before is that rule, which this one must precede.
func (a *App) AlwaysRule(ctx context.Context, id string) (rule, before string, err error) {
	view, err := a.approvals.Show(ctx, a.Operator(), a.tenant, id, false)
	if err != nil {
		return "", "", err
	}
	p := view.Approval
	to := policy.Exactly{Action: string(p.Action), Agent: p.Agent}
	if p.Authority != "" {
		to.Host, to.Method = p.Authority, p.Method
	}
	rule, known := a.policy.Current(a.tenant).Allowing(p.Rule, "always-"+p.ID, to)
	if !known {
		return "", "", &runtime.Error{
			Code: runtime.CodeInvalidInput, ApprovalID: p.ID, Msg: fmt.Sprintf("the rule %s that asked is no longer in the policy, so what it was about is not known", p.Rule),
			Hint: runtime.Command(a.tenant, "approve accept "+p.ID),
		}
	}
	return rule, p.Rule, nil
}

// AddRule puts a rule into the policy file, right before the one that is named or
// behind all, with everything else in it kept, and the file whole at every moment:
// rules above, which deny perhaps, go on deciding first. A result that is no policy
// is not written.
func (a *App) AddRule(ctx context.Context, rule, name string) error {
	rules := a.rules()
	if err := rules.AreThere(a.tenant); err != nil {
		return err
	}
	file, err := rules.Writable(a.tenant)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	if err != nil && (rules.Needed(a.tenant) || !errors.Is(err, fs.ErrNotExist)) { // a file of this rule alone would lift all others
		return byHand(file, rule, err)
	}
	after, err := graft.Insert(before, rule, name)
	if err != nil {
		return byHand(file, rule, err)
	}
	return a.noted(ctx, "policy.add-rule", map[string]string{"rule": rule}, func() error {
		return a.replacePolicy(ctx, file, file, before, after)
	})
}

// replacePolicy reads the text as a policy, writes it beside the old one, and
// puts it in its place unless somebody has changed that meanwhile. One does so at a
// time: what was read is what is put there, and nobody's change is lost. Called is
// the file's name in errors: who is elsewhere knows no path of this machine.
func (a *App) replacePolicy(ctx context.Context, file, called string, before, after []byte) error {
	if _, err := policy.Compile(a.services.Current(), policy.File{Name: called, Data: after}); err != nil {
		return runtime.Invalid(err, "kimbap policy validate")
	}
	unlock, err := a.home.LockPolicy(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	mode := os.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	trial := file + ".trial"
	if err := home.Replace(trial, after, mode); err != nil {
		return err
	}
	defer os.Remove(trial)
	now, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, before) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPreconditionFailed, Msg: called + " was changed meanwhile; nothing was written", Hint: "try again",
		}
	}
	return system.Rename(trial, file)
}

func byHand(file, rule string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("no rule can be added to %s: %v", file, err),
		Hint: "add it by hand, before the rule that asked: " + rule,
	}
}
