// Package policy is stage 3: it turns a YAML file of rules into one answer per request:
// allow, deny or require_approval.
//
// It is pure. Deciding does no IO, reads no clock and allocates nothing; the same question
// under the same file always has the same answer. Rules are tried in the order of the file,
// and the first match wins. If none matches, the default for the action's risk applies.
//
// It refuses to guess. An unknown field, a value that YAML turned into something else (yes,
// 5, null) and a pattern that can never match are problems with a place in the file. All
// are reported at once, and a file with problems is no policy at all. The zero [Policy] and
// an incomplete question deny.
//
// Start reading at [Policy.Decide], then [Compile].
package policy
