// Package probe tries how programs of this machine get through a kimbap (`kimbap
// doctor --client`): each fetches once from a local upstream that wants a key, by way
// of a proxy of its own, and what the proxy and the upstream saw of it says what is
// wrong with its settings.
//
// It uses nothing of the user's home: the kimbap is opened over a folder that is
// removed again, and its key is made up. It changes no setting; it says which to
// change.
//
// Start reading at [Clients], then judge.
package probe
