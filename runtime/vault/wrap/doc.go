// Package wrap keeps the master key of a vault: in a file of the home, in the
// environment, in the keyring of the system, or in a file that only an external
// key service can open, which a command or the transit engine of HashiCorp Vault
// speaks for. It also runs the commands of references ([Commands]).
//
// No key and no value ever stands in an argument or a variable of a command:
// they go through its stdin and stdout. A command sees a few named variables and
// none of kimbap's own; what it prints on stderr is thrown away, because it may
// hold a secret. Errors hold none.
//
// Start reading at [File] for the two places that every source has, the key and
// the one that shall follow it, and at [Service] for keys that are wrapped.
package wrap
