// Package call does an action by its name, for the surfaces that give results rather than
// streams: it keeps the whole answer, follows redirects, asks for the pages of a listing,
// and gives what came through the filter of the service file, or the error that it is.
//
// Every request of it, the one that a redirect or a page leads to as well, goes through
// the pipeline that it is given, where it is recognised, judged and recorded by itself.
// It follows nothing to another origin, where the credential does not go, and keeps no
// answer without a bound.
//
// Start reading at [Actions.Do], then [Actions.Pages]; an [Answer] is the pipeline's
// Responder.
package call
