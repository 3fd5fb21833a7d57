// Package request makes the request of an action from its arguments: it fills the
// templates of the action's spec for path, query, fields and body, places what no template
// names, and writes the body as JSON, form, multipart or as it is.
//
// A value stays where it was put: in the path it is one segment, or several for {name...},
// and "." and ".." are refused; in a query or form it is one pair for each element; it
// cannot end the head of a part of a multipart body. What is built must be recognised as
// the action that was judged, which the tests of the catalogue and of internal/app hold
// it to.
//
// It knows no credential, but for [WithPart], which puts one into a body whose form is
// known here alone; it sends nothing, checks no argument against its schema and decides
// nothing. That is the resolver's, and services/rest's.
//
// Start reading at [Build].
package request
