// Package runtime holds the shared types of kimbap and the pipeline that every request
// passes: identify, resolve, policy, credential, execute, audit.
//
// It decides the order of the stages and nothing else. Each stage is a small interface
// (stages.go) that another package implements. This package imports none of them, so no
// stage can be skipped, swapped or reached around by another.
//
// It refuses to be built with a stage missing, and every zero value in it denies: the zero
// [Verdict] is a denial, the zero [Principal] may do nothing, the zero [Secret] is empty.
//
// Start reading at [Pipeline.Do].
package runtime
