// Package services turns YAML service files into actions and routes, and finds
// the action of a request: stage 2 of the pipeline.
//
// A file becomes a [Service] in one pass ([Parse]):
//
//	bytes → source.go     one YAML tree without aliases, tags and duplicates, which could hide things;
//	                      object.go: the fields of its mappings; quoted.go: whether messages show its lines
//	      → service.go    names, version, advice; origin.go: base_url and hosts → authorities
//	      → auth.go       where the credential goes
//	      → action.go     per action: method (method.go), path, risk; arg.go: the schema of its arguments;
//	                      answer.go: what is made of its answers
//	      → mapping.go    request (its body: body.go): how arguments become a request (for the rest backend), and the
//	                      same turned around: how they are read back (for the classifier);
//	                      match.go: what tells the action from others of the same path
//	      → runtime.Action, classifier.Route
//
// All services together are a [Set]: one route table, one name space. The proxy asks its Table
// what a request is; the pipeline asks [Set.Resolve] whether the arguments fit. [Live] holds the
// set in force.
//
// The package refuses rather than guesses. A file has known fields only, and two routes of
// which either could win do not load. All problems of a file are reported at once, with line,
// column and fix ([Problems]). A built request (package request, below) must be recognised as
// the action that was named, whatever its arguments hold; it is the one that is sent. Messages
// about arguments never show a value.
//
// It does no IO except reading the folder of service files (dir.go), and holds no secrets: files
// only name them.
//
// Start reading at [Parse], then at [Set.Resolve].
package services
