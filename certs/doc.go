// Package certs is the local certificate authority: it lets kimbap answer for
// the hosts whose requests it handles, to the programs that trust its root and
// to nobody else.
//
// There are three levels. The root lives in a folder, its key sealed; it signs
// an intermediate and its key leaves memory again. The intermediate exists in
// memory only, for a week, and signs the leaves. A leaf names exactly one host,
// lives for days and is made on demand.
//
// It refuses to replace a root that clients may already trust: a key that is
// missing, damaged, readable by others or of another root is an error that
// names the file. It never hands out a private key other than the one inside a
// leaf, and [RefuseOurs] keeps kimbap from believing its own certificates when
// it is the client.
//
// Start reading at [Authority.Open], then [Authority.Leaf].
package certs
