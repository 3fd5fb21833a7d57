// Package scrub looks for a credential in bytes: literally, and in base64, hex, percent
// and JSON escapes as the languages in use write them, without the blanks around it that
// HTTP strips, and as Latin-1 reads it (forms.go); in a text that is there whole, in one
// that comes in pieces, and behind a content coding (decode.go). It is best effort: an
// upstream that encodes the credential in a way of its own is not caught.
//
// It knows nothing of requests and answers, of the vault or of who asked: it gets a
// secret, and bytes or a reader. It opens nothing, decides nothing and reports nothing;
// what is done about a match is up to services/rest. It refuses to look for a secret of
// under four bytes, and for a form or user name of under eight: what hits by chance
// breaks an honest answer.
//
// Start reading at [New], then [Matcher.MaskPart].
package scrub
