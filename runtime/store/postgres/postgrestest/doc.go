// Package postgrestest runs a PostgreSQL server for tests: a real one, in a folder of its
// own, that is reached over a line which a test can cut ([Server.Line]). It is imported by
// tests only, and only where there is a Unix. Start reading at [Start].
package postgrestest
