// Package runner starts a program behind kimbap: with the proxy, the CA and
// placeholders in its environment, real keys taken out of it, git told to use
// the proxy, and kimbap's own home covered so that the program cannot read it.
//
// It never holds a stored credential: what it takes out of an environment it
// recognises through a function that only answers yes or no. It is advisory by
// itself, because a program may ignore proxy variables; such a program reaches
// the network, but no key. With [Isolation] it reaches the proxy alone.
//
// Start reading at [Variables] for what any client needs, then [Run].
package runner
