// Package certs is the local certificate authority. It lets kimbap answer for the hosts whose
// requests it handles, to the programs that trust its root and to nobody else.
//
// There are three levels:
//
//   - The root is in a folder, its key sealed. It signs intermediates, and then its key leaves
//     memory again.
//   - The intermediates exist in memory only, for a week. Critical name constraints bind each
//     to at most 32 hosts of one service.
//   - A leaf names exactly one host, lives for days, and is made on demand by the intermediate
//     that permits the host.
//
// It refuses to make a leaf for any other host, and to replace a root that clients may already
// trust unless it is told to ([Authority.Rotate]). A key that is missing, damaged, readable by
// others or of another root is an error that names the file. The package hands out no private
// key but the one inside a leaf. [Upstream] keeps kimbap, as a client, from trusting its own
// certificates.
//
// Start reading at [Authority.Open], then [Authority.Permit] and [Authority.Leaf].
package certs
