// Package sqlite keeps what the stages store in one SQLite file: sealed
// secrets, hashes of tokens, approvals, and the search index of the trail. It
// implements the Store interfaces that those stages declare and knows nothing
// of what their bytes mean.
//
// Several processes may have the file open. Every change is one immediate
// transaction; a lock that lasts over two seconds is CodeStorageBusy. It refuses
// a file that others can read, one that is damaged, and one that a newer kimbap
// has written; it never makes an empty file beside a damaged one.
//
// Start reading at [Open], then schema/*.sql for what is stored.
package sqlite
