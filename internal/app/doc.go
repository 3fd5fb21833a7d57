// Package app joins the parts of kimbap; no other package knows them all. [New] takes what the
// process gives it, [App.Open] builds the stages and the pipeline over one home, [App.Close]
// writes out what is left. The commands of cmd/kimbap are thin calls of App's methods.
//
// Identity, policy, vault and trail decide what a request may do. Who may act for the owner is
// said here: in the console (consoledesk.go), over the API (apioperator.go), beside a person
// (presence.go). It refuses to run with a home that others can read, with a wrong master key, and
// with services or a policy that do not load.
//
// Work that needs no App is in packages beside this one. The methods here find what those
// need, and there are aliases of their types.
//
// Start reading at [App.Open], then [App.Serve] for the proxy.
package app
