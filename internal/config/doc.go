// Package config turns one file, the environment and the command's flags into
// one checked struct, and remembers where each value came from.
//
// It refuses what it does not know: an unknown key, a wrong type, a value that
// cannot work and a value that this version cannot honour are problems, each
// with its place in the file, the line itself and what to write instead, all
// reported at once. Nothing is ignored in silence. Secrets never appear in a
// problem, a dump or a log.
//
// A process that goes on reads its file again by [Live]; each key says whether such a
// process takes up another value, or wants a restart.
//
// Start reading at [Load]; settings.go is the list of all keys.
package config
