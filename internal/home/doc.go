// Package home is the folder of one user's kimbap: where each file is, who may read
// it, how one is replaced, the lock of its keys, the names of the processes that hold
// something in it, and the two small files that need nothing else to be read (aliases,
// hashes of fetched services).
//
// It refuses a home that belongs to somebody else or that others can read, and rules
// outside it that others can write. It opens no database and no vault, and knows no
// secret.
//
// Start reading at [Folder], then [Folder.Check].
package home
