package approval

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/kimbap-run/kimbap/runtime"
)

// Lid is what closes something under the operator's own PIN without asking for it:
// the PIN, or who can open what the vault seals, has the key.
type Lid struct {
	Who    string         // whose PIN
	Recipe []byte         // how the PIN becomes the key; no secret
	Key    runtime.Secret // 32 bytes
}

// recipe is how a PIN becomes a key.
type recipe struct {
	Salt    []byte `json:"salt"`
	Passes  uint32 `json:"passes"`
	Memory  uint32 `json:"memory"` // KiB
	Threads uint8  `json:"threads"`
}

// mostMemory and mostPasses bound what an edited recipe can ask of the machine.
const (
	mostMemory = 1 << 20 // KiB
	mostPasses = 16
)

// OwnPin returns whose PIN is the operator's own, "" when none is set. It needs no
// open vault.
func (d *Desk) OwnPin(ctx context.Context, by runtime.Principal) (who string, err error) {
	return d.PinNeeds(ctx, by, by.Tenant, "", true)
}

// Lid returns the operator's own. It needs an open vault, and a PIN that is set.
func (d *Desk) Lid(ctx context.Context, by runtime.Principal) (Lid, error) {
	p, found, err := d.pin(ctx, by.Tenant, by.ID)
	if err != nil {
		return Lid{}, err
	}
	if !found {
		return Lid{}, badPin("you have no PIN", "kimbap approve pin")
	}
	k, err := d.openPin(ctx, &p)
	if err != nil {
		return Lid{}, err
	}
	text, err := json.Marshal(recipe{k.Salt, k.Passes, k.Memory, k.Threads})
	return Lid{Who: by.ID, Recipe: text, Key: runtime.NewSecret(string(k.Key))}, err
}

// Lift makes the key of a Lid from the PIN, counting the try as any other, and says
// that the PIN is wrong when opens does. It needs no open vault.
func (d *Desk) Lift(ctx context.Context, by runtime.Principal, l Lid, pin runtime.Secret, opens func(key runtime.Secret) bool) error {
	if !operates(&by, by.Tenant) {
		return notOperator()
	}
	var r recipe
	err := json.Unmarshal(l.Recipe, &r)
	if err == nil && (len(r.Salt) == 0 || r.Passes < 1 || r.Passes > mostPasses || r.Memory > mostMemory || r.Threads < 1) {
		err = errors.New("its cost is out of bounds")
	}
	if err != nil {
		return badPin("how the PIN of "+word(l.Who)+" becomes a key cannot be read: "+err.Error(), "put back a copy of the file that says it")
	}
	p, found, err := d.pin(ctx, by.Tenant, l.Who)
	if err != nil {
		return err
	}
	if found { // else the database is another than the one it was closed over, and cannot count
		if err := d.countTry(ctx, &p); err != nil {
			return err
		}
	}
	k := pinKey{Salt: r.Salt, Passes: r.Passes, Memory: r.Memory, Threads: r.Threads}
	if !opens(runtime.NewSecret(string(k.derive(pin)))) {
		return wrongPin(l.Who)
	}
	if !found {
		return nil
	}
	return d.o.Store.ClearTries(ctx, p.Tenant, p.Who)
}

// Prove checks the operator's own PIN. It needs an open vault.
func (d *Desk) Prove(ctx context.Context, by runtime.Principal, pin runtime.Secret) error {
	if !operates(&by, by.Tenant) {
		return notOperator()
	}
	_, err := d.provePin(ctx, by.Tenant, by.ID, pin)
	return err
}
