// Package tables keeps what the stages store in the tables of an SQL database:
// sealed secrets, hashes of tokens, approvals, rate limits, scripts, and the search
// index of the trail. It implements the Store interfaces that those stages declare
// and knows nothing of what their bytes mean.
//
// It has the statements, one text for all databases; an [Engine] runs them on one.
// runtime/store/sqlite and runtime/store/postgres are engines and have the tables
// themselves; runtime/store/storetest proves both alike. It opens nothing, retries
// nothing and waits for nobody.
//
// Start reading at [Store], then sqlite/schema/*.sql for what is stored.
package tables
