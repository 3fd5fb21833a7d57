package vault

import (
	"context"
)

// KeyWrapper is where the master key of a vault is kept: as it is in a place of
// its own, or wrapped by a key service. Which of several keys is in force says
// the vault's key check value, never the KeyWrapper; so a rotation that was cut
// short leaves two keys and no doubt.
//
// One process at a time calls Next and Settle; the caller sees to that.
type KeyWrapper interface {
	// Keys returns the keys that are kept: none is CodeVaultLocked with
	// ReasonNoMasterKey, a service that does not answer ReasonKeyUnavailable. Keys beside
	// an error are those that could be had: it counts where none of them proves right.
	Keys(ctx context.Context) ([]MasterKey, error)
	// Next returns the key that shall follow, once it is durably kept beside the
	// others. One that was left behind by a Next before is returned again.
	Next(ctx context.Context) (MasterKey, error)
	// Settle keeps this key, which is one of Keys, and removes the others, also those that a
	// Next which was killed had not yet kept.
	Settle(ctx context.Context, key MasterKey) error
}
