package app

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// collectable refuses an approval that collect will refuse once it is decided. Of one that
// cannot be read now it says nothing.
func (a *App) collectable(ctx context.Context, me runtime.Principal, id string) error {
	if err := a.approvals.Repeatable(ctx, me, id); err != nil {
		return err
	}
	held, err := a.approvals.Held(ctx, me, id)
	if err != nil {
		return nil //nolint:nilerr // whoever collects it hears that
	}
	return a.leftToScript(ctx, me.Tenant, held.Execution, id)
}

// leftToScript refuses an approval of a script that has not ended: collected by itself, its
// answer would not reach the script, which would ask for the same anew and do it twice.
func (a *App) leftToScript(ctx context.Context, tenant runtime.Tenant, execution, id string) error {
	if execution == "" {
		return nil
	}
	row, found, err := a.store.Execution(ctx, tenant, execution)
	if err != nil || !found || row.State == journal.Ended {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, ApprovalID: id,
		Msg:  fmt.Sprintf("%s was asked first by the script %s, which goes on with it itself", id, execution),
		Hint: "kimbap exec --resume " + execution + ", or send the same request again",
		Ask:  "resume the script by its own id: " + execution + "; a call of your own of the same, sent again, uses the yes",
	}
}
