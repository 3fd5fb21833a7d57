// Package runtime holds the shared types of kimbap and the pipeline that every request
// passes: identify, resolve, policy, credential, execute, audit.
//
// The pipeline decides the order of the stages and nothing else. Each stage is a small
// interface (stages.go) that another package implements. This package imports none of them,
// so no stage can be skipped, swapped or reached around by another.
//
// Beside it stands what all surfaces say alike: a refusal in the form that the asking client
// reads (problem.go, asker.go), and the commands in its hint (hint.go, callflag.go).
//
// It refuses to be built with a stage missing, and every zero value in it denies: the zero
// [Verdict] is a denial, the zero [Principal] may do nothing, the zero [Secret] is empty.
//
// Start reading at [Pipeline.Do].
package runtime
