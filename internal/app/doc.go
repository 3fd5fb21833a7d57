// Package app joins the parts of kimbap: it is the only package that knows
// them all. [New] takes what the process gives it, [App.Open] builds the stages
// and the pipeline over one home folder, [App.Close] writes out what is left.
// The commands of cmd/kimbap are thin calls of App's methods.
//
// It holds no rule of its own about who may do what: identity, policy, vault
// and trail decide that. It refuses to run with a home that others can read,
// with a wrong master key, and with services or a policy that do not load.
//
// What can be done without an App is done in rooms of its own beside this one; here
// are the methods that find what those need, and aliases of their types.
//
// Start reading at [App.Open], then [App.Serve] for the proxy.
package app
