// Package console is the web page of an operator: what waits for a decision, the trail,
// tokens. It is HTML that the server writes and forms that the browser sends back; there is
// no script in it, and its policy (CSP) lets none run, so that nothing an agent or an
// upstream wrote can become one.
//
// It refuses whoever has not signed in, every form that another page sent (Origin, Sec-Fetch-Site, and a value that only our own pages hold), and anything
// that a page of another origin would embed. It shows no stored value and has no way to
// one: it decides through [Desk], for whom [Desk.Enter] lets in, asked for every request.
//
// Start reading at [New] and [Console.ServeHTTP], then guard.go.
package console
