// Package request makes the request of an action from its arguments: it fills the
// templates of the action's spec for path, query, fields and body, places what no template
// names, and writes the body as JSON, form, multipart or as it is.
//
// A value stays where it was put: in the path it is one segment, or several for {name...},
// and "." and ".." are refused; in a query or form it is one pair for each element; it
// cannot end the head of a part of a multipart body. Package services recognises what was
// built, and that is what is sent: the request of one call is built once.
//
// It knows no credential, but for [WithPart], which puts one into a body whose form is
// known here alone; it sends nothing, checks no argument against its schema and decides
// nothing. That is the resolver's, and services/rest's. It refuses what could not be sent as
// one request: holes of a path without a value, fields with blanks around them or of two lines.
//
// Start reading at [Build].
package request
