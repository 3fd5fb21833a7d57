// Package export writes what others read of service files: a SKILL.md for
// agents ([Skill]), TypeScript declarations for scripts ([Declarations]), and the
// JSON Schema of the format for editors ([Schema]).
//
// It reads checked services and the words of the format; it judges nothing, and
// writes text only. A test holds the schema to the loader: both know the same
// fields everywhere.
//
// Start reading at [Skill].
package export
