// Package openapi makes a service file of an API description: OpenAPI 3.0, 3.1
// and Swagger 2.0, as JSON or YAML.
//
//	bytes → read.go    one tree for each file (twice.go), $ref between them (refs.go)
//	      → paths.go   operations, of which selection is by tag and path
//	        span.go    their paths, where a parameter holds slashes
//	      → schema.go  what a schema says of one argument, or of a body's members
//	      → plan.go    an operation → an action: its arguments and where they go (style.go, body.go)
//	        name.go, risk.go, auth.go, server.go: what the document leaves to be guessed
//	      → write.go   the text, which services.Parse judges
//	      → report.go  what was left out, and why
//
// It is lenient for each operation: what cannot be imported is left out with
// its reason, and the rest is. The result always loads: the text is parsed as
// any service file is, and an action that does not pass, or that could not be
// told from another, is left out too. Names come from operationId and do not
// depend on the selection, so that a policy that names an action goes on meaning
// the same one.
//
// It refuses to fetch: a $ref leads to the document's own folder or nowhere. What
// is hostile in a document (size, depth, circles, aliases that multiply) costs
// bounded time and memory. It reads files through the fs.FS it is given.
//
// Start reading at [Import].
package openapi
