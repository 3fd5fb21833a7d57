// Package runtime holds the words of kimbap and the one straight line that
// every request walks: identify, resolve, policy, credential, execute, audit.
//
// It decides the order of the stages and nothing else. What a stage does is
// behind a small interface (stages.go), filled by a package of its own; this
// package imports none of them, so no stage can be skipped, swapped or reached
// around by another. It refuses to be built with a stage missing, and every
// zero value in it denies: the zero [Verdict] is a denial, the zero [Principal]
// may do nothing, the zero [Secret] is empty.
//
// Start reading at [Pipeline.Do].
package runtime
