package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/tenants"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// apiOperator is what the API does for tokens with a role of it.
type apiOperator struct {
	a    *App
	kick func() // has the files read again at once
}

var _ server.Operator = apiOperator{}

// Decide implements [server.Operator]. A token decides neither what it asked for
// nor what a token asked for that it made.
func (s apiOperator) Decide(ctx context.Context, who runtime.Principal, id string, d server.Decision) (any, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	asked, err := seat.approvals.Status(ctx, seat.Operator(), id) // whose it is, a locked vault knows too
	if err == nil {
		err = s.foreign(ctx, who, asked)
	}
	if err != nil {
		return nil, err
	}
	var done Approval
	if d.Accept {
		done, err = seat.Accept(ctx, id, approval.Yes{For: d.For, Run: d.Run, Full: d.Full, As: d.As, PIN: d.PIN})
	} else {
		done, err = seat.Reject(ctx, id, d.Note)
	}
	return done, err
}

// Standing implements [server.Operator].
func (s apiOperator) Standing(ctx context.Context, who runtime.Principal) ([]server.Item, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	list, err := seat.Standing(ctx)
	var out []server.Item
	for _, one := range list {
		out = append(out, server.Item{Key: one.ID, Body: one})
	}
	return out, err
}

// EndStanding implements [server.Operator]. A locked vault opens no approval, and one can be
// ended all the same.
func (s apiOperator) EndStanding(ctx context.Context, who runtime.Principal, id string) (any, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	if err := seat.RevokeStanding(ctx, id); err != nil {
		return nil, err
	}
	p, err := seat.approvals.Status(ctx, seat.Operator(), id)
	return shownApproval(p), err
}

// foreign refuses an approval that was asked for by a token of the operator's own
// making: it would be its own by a detour.
func (s apiOperator) foreign(ctx context.Context, who runtime.Principal, p approval.Approval) error {
	tokens, err := s.a.identity.List(ctx, who.Tenant)
	if err != nil {
		return err
	}
	maker := map[string]string{}
	for _, t := range tokens {
		maker["token:"+t.ID] = t.Creator
	}
	for asker := p.Principal; asker != ""; asker = maker[asker] {
		if asker == who.ID {
			return &runtime.Error{
				Code: runtime.CodeForbidden, Reason: runtime.ReasonOwnRequest, ApprovalID: p.ID,
				Msg: "a token decides nothing that it, or a token of its making, asked for", Hint: "another operator decides",
			}
		}
	}
	return nil
}

// Records implements [server.Operator].
func (s apiOperator) Records(ctx context.Context, who runtime.Principal, f server.Filter, after string, limit int) ([]server.Item, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	found, err := seat.newest(ctx, RecordQuery{
		Action: runtime.Glob(f.Action), Agent: runtime.Glob(f.Agent), Host: runtime.Glob(f.Host), Kind: f.Kind, Effect: f.Effect, Code: f.Code,
		RequestID: f.Request, Execution: f.Execution, Text: f.Text, Since: f.Since, Until: f.Until,
	}, after, limit)
	var out []server.Item
	for _, r := range found {
		out = append(out, server.Item{Key: placeOf(r), Body: json.RawMessage(r.Line)})
	}
	return out, err
}

// newest finds the records that a query selects, the newest first: so many, behind the one
// of a place where a page before has ended, or from the beginning.
func (a *App) newest(ctx context.Context, q RecordQuery, after string, limit int) (out []Record, err error) {
	q.Limit = limit
	skip := after != ""
	if skip {
		at, _, _ := strings.Cut(after, " ")
		last, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "there is no such place in the trail", Hint: "begin with the newest records", Err: err}
		}
		q.Until = last.Add(time.Millisecond) // with its twins, however finely the index keeps time
		q.Limit = limit + momentLimit        // which were seen already
	}
	found, err := a.SearchTrail(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if skip {
			skip = placeOf(r) != after
			continue
		}
		if out = append(out, r); len(out) == limit {
			break
		}
	}
	return out, nil
}

// placeOf names a record among those that stand before and behind it.
func placeOf(r Record) string {
	return r.Time.UTC().Format(time.RFC3339Nano) + " " + strconv.FormatUint(r.Sequence, 10) + " " + r.Slot
}

// momentLimit bounds the records of one moment.
const momentLimit = 1000

// Tokens implements [server.Operator].
func (s apiOperator) Tokens(ctx context.Context, who runtime.Principal) ([]server.Item, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	list, err := seat.ListTokens(ctx)
	var out []server.Item
	for _, t := range list {
		out = append(out, server.Item{Key: t.ID, Body: seat.Shown(t)})
	}
	return out, err
}

// Mint implements [server.Operator].
func (s apiOperator) Mint(ctx context.Context, who runtime.Principal, g server.Grant) (any, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	secret, t, err := seat.CreateToken(ctx, TokenGrant{Agent: g.Agent, Scopes: g.Scopes, Roles: g.Roles, Groups: g.Groups, TTL: g.TTL})
	if err != nil {
		return nil, err
	}
	return struct {
		TokenInfo
		Token string `json:"token"` // this once
	}{seat.Shown(t), secret.Reveal()}, nil
}

// Revoke implements [server.Operator].
func (s apiOperator) Revoke(ctx context.Context, who runtime.Principal, id string) error {
	seat, err := s.a.seat(who)
	if err != nil {
		return err
	}
	return seat.revokeKnown(ctx, id)
}

// revokeKnown revokes a token that is valid; another id is unknown.
func (a *App) revokeKnown(ctx context.Context, id string) error {
	revoked, err := a.RevokeToken(ctx, id)
	if err == nil && !revoked {
		return unknownID("valid token", id)
	}
	return err
}

// Secrets implements [server.Operator]: names and places, never a value.
func (s apiOperator) Secrets(ctx context.Context, who runtime.Principal) ([]server.Item, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	list, err := seat.Secrets(ctx)
	var out []server.Item
	for _, one := range list {
		one.Command = nil // of a reference: how a program of this machine is called
		out = append(out, server.Item{Key: one.Name, Body: one})
	}
	return out, err
}

// SetSecret implements [server.Operator]. Hosts are those of the installed
// services, or some that the caller names.
func (s apiOperator) SetSecret(ctx context.Context, who runtime.Principal, name string, value runtime.Secret, hosts []string) (any, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	if value.Empty() {
		return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the credential is empty: there is no value", Hint: `send it as "value"`}
	}
	version, bound, err := seat.SetSecret(ctx, name, value, SecretOptions{Hosts: hosts})
	answer := map[string]any{"name": name, "version": version, "hosts": bound}
	if short := Unmasked(value); short != "" {
		answer["warning"] = short
	}
	return answer, err
}

// RemoveSecret implements [server.Operator].
func (s apiOperator) RemoveSecret(ctx context.Context, who runtime.Principal, name string) error {
	seat, err := s.a.seat(who)
	if err != nil {
		return err
	}
	log := s.a.o.Log.With().Str("credential", name).Str("tenant", string(who.Tenant)).Logger()
	switch seat.SignIns().GiveBack(ctx, name) { // the answer has no place for it
	case GrantAlive:
		log.Warn().Msg("an OAuth grant is removed and could not be given back: take it away in the account at its provider")
	case GrantLasting:
		log.Warn().Msg("an OAuth grant is removed and its access token could not be given back: it is good until it expires")
	}
	removed, err := seat.RemoveSecret(ctx, name)
	if err == nil && !removed {
		return unknownID("secret", name)
	}
	return err
}

// Policy implements [server.Operator].
func (s apiOperator) Policy(_ context.Context, who runtime.Principal) ([]byte, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	if err := seat.rules().AreThere(seat.tenant); err != nil { // no defaults: the old rules are in force
		return nil, fromAfar(err, "the policy is not where it is kept")
	}
	file := seat.PolicyFile()
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return nil, &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonReadOnly, Msg: "the policy is a folder of files, which is not shown over the network",
			Hint: "read it where it is kept",
		}
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the defaults
	}
	return text, err
}

// SetPolicy implements [server.Operator].
func (s apiOperator) SetPolicy(ctx context.Context, who runtime.Principal, before, after []byte) error {
	seat, err := s.a.seat(who)
	if err != nil {
		return err
	}
	if s.a.config.Current().Policy.Source != "api" {
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonReadOnly, Msg: "the policy is kept in files here, and nothing over the network changes them",
			Hint: "change the file, or let the owner set policy: {source: api} in config.yaml",
		}
	}
	file, err := seat.rules().Writable(seat.tenant)
	if err != nil {
		return fromAfar(err, "the policy cannot be replaced where it is kept; nothing was written")
	}
	err = seat.noted(ctx, "policy.replace", map[string]string{"bytes": fmt.Sprint(len(after))}, func() error {
		return seat.replacePolicy(ctx, file, tenants.RulesName, before, after)
	})
	if err == nil {
		s.kick()
	}
	return err
}

// fromAfar is why a policy is not read or written, for who is elsewhere: where it is kept, and
// who else can write there, is for the log.
func fromAfar(err error, msg string) error {
	var e *runtime.Error
	if !errors.As(err, &e) {
		return err
	}
	return &runtime.Error{
		Code: e.Code, Reason: e.Reason, Msg: msg,
		Hint: "see the log of the kimbap process", Err: err,
	}
}
