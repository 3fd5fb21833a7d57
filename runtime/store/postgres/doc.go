// Package postgres keeps what the stages store in a PostgreSQL database, 12 or newer,
// for several processes on one or several machines. The statements are those of
// runtime/store/tables; here are the connections, the tables, and what errors mean.
//
// No call takes longer than three seconds. A database that does not answer, is read-only
// or takes no connections is CodeStorageBusy with ReasonStorageUnavailable, a lock that
// lasts over two seconds CodeStorageBusy. It refuses to make tables unasked: an empty
// database in the place of a used one would look like a vault that lost everything. It
// refuses a remote server whose certificate it cannot check, unless the address says so.
//
// Start reading at [Open], then schema/0001.sql for what is stored.
package postgres
