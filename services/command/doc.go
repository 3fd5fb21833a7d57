// Package command is the backend of actions that are programs on this machine:
// it starts one without a shell, gives it the stored credential in its own
// environment and nowhere else, and gives back what it wrote.
//
// A program gets PATH, an empty folder as HOME and to work in, the variables that
// its service names, and nothing on stdin. It leads a session of its own, without
// a terminal, and at its end, at a timeout and when the caller goes away, its
// whole process group is killed. A child that has made a session of its own is in another, and lives on. It
// leaves no core file. What it writes is bounded, and the credential is blanked out of it.
//
// It refuses a program that anybody on the machine may change, a credential that
// was not stored for this service, and a value that could become a flag. It
// follows no instruction in what a program writes.
//
// Start reading at [Backend.Execute].
package command
