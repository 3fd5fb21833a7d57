// Package witness compares the two sides of an exchange: what came against what
// left, on the way to the upstream and back. Every change of a message is declared
// (runtime.Result.Changed); the witness breaks the exchange at the first difference
// that no declaration explains. It looks in two places: at the request before a
// connection is asked for, which every engine passes, and at the bytes on the
// connection, which it reads itself (transcript.go).
//
// It shares no list and no reader with the code that makes the changes. It refuses
// to say what a value was: its errors name a place. It does not compare the version,
// the reason phrase, the order and the case of names; values are compared, how many
// there are, and their order within one name.
//
// Start reading at [New], then [Witness.Judge].
package witness
