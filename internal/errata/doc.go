// Package errata says what is wrong with files that somebody wrote, services and policies
// alike: all of it at once, and in one shape for programs, with the place of each mistake.
//
// It reads what it is given by name and changes nothing. Whether a file is good is for
// those to say who load it; here their errors are gathered, and what only the engine of
// filters can tell is added.
//
// Start reading at [Services], then [Of].
package errata
