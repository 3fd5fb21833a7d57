// Package stores puts a root certificate into the trust stores of a machine and
// takes it out again: the system's, NSS databases (Chromium, Firefox) and Java key
// stores. It does so with the commands that the system brings for it, and says
// each before it is run.
//
// It never writes into a store by itself, never touches a certificate that it was
// not given, and holds no state: what was installed where is the caller's to
// remember ([Entry]).
//
// Start reading at [Machine.Find], then [Machine.Install] and [Machine.Uninstall].
package stores
