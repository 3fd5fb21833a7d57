// Package setup writes into the settings of coding agents what leads them through the
// proxy, and takes it out again (`kimbap agents`). What the pieces are is the matter of
// internal/runner/agents; here are the files, and the book that remembers what was
// written into which.
//
// A file is changed only as it was shown: what changed meanwhile, or where kimbap had
// written, is refused. The book knows of a piece before the file does, so that it is
// found whatever happens in between.
//
// Start reading at [Machine.Plan], then [Machine.Apply].
package setup
