// Package vault keeps credentials sealed and opens one for one call: stage 4 of the
// pipeline.
//
// A master key of 32 bytes wraps a random key per tenant, and the tenant's key seals each
// secret with AES-256-GCM. Tenant, name, version, allowed authorities, expiry and purpose
// are bound into the ciphertext, so a sealed secret that is moved to another place, or sent
// to another host, does not open.
//
// It refuses a wrong master key before anything is written, a key file that others can read,
// a secret without an authority it may go to, and every stored byte that was changed. No
// method prints or lists a stored value. Only [Vault.Credential] opens one, for a call;
// [Vault.Live] names those that were opened, so that a log can hide them.
//
// A vault without a master key is locked: it names what is stored and refuses everything
// else, until [Vault.Unlock] gets the right key.
//
// An opened value stays in memory until [Vault.Forget]; call it when the store's change
// counter moves. Erasing memory is best effort in Go and not promised.
//
// Start reading at [Vault.Credential].
package vault
