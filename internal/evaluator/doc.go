// Package evaluator runs jq expressions, which others have written, in processes of their own:
// a single step of one can take all memory, or nest until Go ends the process, and nothing
// stops it from within. A process has one expression and its data, and nothing else: no
// environment, no files but its pipes. It is ended at the bounds of services/jq, and with the
// context of who asked.
//
// It knows nothing of actions and answers. An expression that cannot do such a thing
// ([jq.Plain] of services/jq) is run where it is, which takes no time.
//
// Start reading at [Evaluator.Filter]; [Main] is the process.
package evaluator
