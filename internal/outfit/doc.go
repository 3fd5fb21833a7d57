// Package outfit is what a program is given that shall go through kimbap, wherever its
// kimbap is: the files that make the proxy trusted, settings for clients that read no
// variable, and what stands in for keys. `kimbap run` and `kimbap env` are told the
// same for a kimbap of this machine and for one elsewhere; that stands here too.
//
// It opens no home, asks nobody, and starts nothing: internal/runner does that with
// what is made here.
//
// Start reading at [Run.Program] and [Run.NewFolder].
package outfit
