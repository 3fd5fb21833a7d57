package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// vote adds one person's yes and approves once there are enough. Who says yes
// again adds nothing, but does finish what a process that died left undone.
func (d *Desk) vote(ctx context.Context, a *Approval, count int, v decision) (Approval, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return bare(*a), err
	}
	proof, err := d.o.Sealer.SealFor(ctx, a.Tenant, purposeVote, plain, bindVote(a, v.By))
	if err != nil {
		return bare(*a), err
	}
	added, err := d.o.Store.AddVote(ctx, Vote{Tenant: a.Tenant, Approval: a.ID, Who: v.By, Proof: proof, Given: v.At})
	if err != nil {
		return bare(*a), err
	}
	votes, err := d.votes(ctx, a)
	if err != nil {
		return bare(*a), err
	}
	if len(votes) < count {
		if !added {
			return bare(*a), votedAlready(a, len(votes), count)
		}
		now := bare(*a)
		now.Note = fmt.Sprintf("%d of %d people have said yes", len(votes), count)
		return now, nil
	}
	return d.approve(ctx, a, together(votes, v))
}

// together is the decision of several people, made by the last of them.
func together(votes []decision, last decision) decision {
	all := decision{State: Approved, At: last.At, Presence: last.Presence}
	for _, v := range votes {
		all.Voters = append(all.Voters, v.By)
		if strength(v.Presence) < strength(all.Presence) {
			all.Presence = v.Presence
		}
	}
	all.By = strings.Join(all.Voters, ", ")
	return all
}

// votes returns the votes of an approval, verified, of one person each. That a store keeps
// one row of each is a matter of its tables, which who edits rows can change too.
func (d *Desk) votes(ctx context.Context, a *Approval) ([]decision, error) {
	rows, err := d.o.Store.Votes(ctx, a.Tenant, a.ID)
	if err != nil {
		return nil, err
	}
	var out []decision
	for _, row := range rows {
		var v decision
		if err := d.unseal(ctx, a, purposeVote, row.Proof, bindVote(a, row.Who), &v); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o decision) bool { return o.By == v.By }) {
			return nil, tampered(a, errors.New("a vote stands in it twice"))
		}
		out = append(out, v)
	}
	return out, nil
}

// bindVote is the additional data of a vote's seal.
func bindVote(a *Approval, who string) []byte { return append(bind(a), lengths(who)...) }

func votedAlready(a *Approval, have, count int) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, ApprovalID: a.ID, Reason: runtime.ReasonNotApprover, Err: ErrVoted,
		Msg:  fmt.Sprintf("you have said yes already; %d of %d people have", have, count),
		Hint: "somebody else must: kimbap approve accept " + a.ID + " --as NAME", Ask: `somebody else must, with "as": "NAME"`,
	}
}
