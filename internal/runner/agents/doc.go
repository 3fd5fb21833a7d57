// Package agents writes settings for coding agents, so that they and the commands
// they start go through kimbap without `kimbap run`: Claude Code, Codex, Gemini CLI,
// and the instructions that such agents read.
//
// It only adds: one piece of text in a file, which it can tell from everything else
// and take out again to the byte. It never changes a line that it did not write, and
// refuses a file that says something else about the same thing. It reads and writes
// no file itself.
//
// Start reading at [Kinds], then [Put] and [Take].
package agents
