//go:build !unix

package certs

// checkPrivate has nothing to look at: the folder inherits the access list of
// the user's profile.
func checkPrivate(string, string) error { return nil }

// syncDir does nothing: folders cannot be synced here.
func syncDir(string) error { return nil }
