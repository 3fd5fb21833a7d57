// Package policy is stage 3: it turns a YAML file of rules into one answer per
// request: allow, deny or require_approval.
//
// It is pure. Deciding does no IO, reads no clock and allocates nothing; the
// same question under the same file always has the same answer. Rules are
// looked at in the file's order and the first that matches wins; where none
// does, the default for the action's risk holds.
//
// It refuses to guess: a field it does not know, a value YAML has turned into
// something else (yes, 5, null), a pattern that can never match are problems
// with a place in the file, all reported at once, and a file with problems is
// no policy at all. The zero [Policy] and an incomplete question deny.
//
// Start reading at [Policy.Decide], then [Parse].
package policy
