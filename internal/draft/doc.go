// Package draft looks at a policy that is not in force: it asks it about cases and
// runs the tests beside it ([Policy.Judge], [Policy.Test]), judges recorded requests
// by it ([Policy.Replay]), names what its rules cannot match ([Policy.Unused]), and
// writes one for what agents were seen doing ([Suggest]).
//
// It sends nothing, records nothing and changes no policy. Where a record does not
// hold what a rule looks at, it says so and does not guess. It opens no home:
// services, clock and records are handed in.
//
// Start reading at [Load], then at Policy.question, which makes of a case the
// question that the pipeline would ask.
package draft
