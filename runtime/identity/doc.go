// Package identity says who a caller is: stage 1 of the pipeline. A caller with
// a token is the agent that the token was made for; one without is the owner's
// own local agent, when the kernel says that the owner's process is at the
// other end and the entrance does not demand a token.
//
// It refuses everybody else with CodeUnauthenticated and the exact reason: an
// unknown, expired or revoked token never falls back to the local agent. Tokens
// are stored as SHA-256 only, live at most as long as configured, and can do
// no more than the operator who made them. An agent cannot make one.
//
// Start reading at [Identity.Identify].
package identity
