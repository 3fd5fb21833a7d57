// Package certs is the local certificate authority: it lets kimbap answer for
// the hosts whose requests it handles, to the programs that trust its root and
// to nobody else.
//
// There are three levels. The root lives in a folder, its key sealed; it signs
// intermediates and its key leaves memory again. The intermediates exist in
// memory only, for a week, and each is bound by critical name constraints to at
// most 32 hosts of one service. A leaf names exactly one host, lives for days
// and is made on demand by the intermediate that permits the host.
//
// It refuses to make a leaf for any other host, and to replace a root that
// clients may already trust unless it is told to ([Authority.Rotate]): a key
// that is missing, damaged, readable by others or of another root is an error
// that names the file. It never hands out a private key other than the one
// inside a leaf, and [Upstream] keeps kimbap from believing its own certificates
// when it is the client.
//
// Start reading at [Authority.Open], then [Authority.Permit] and
// [Authority.Leaf].
package certs
