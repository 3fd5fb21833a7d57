// Package approval is stage 3b: it holds a request that policy wants a person
// to see, tells nobody more than they may know, and gives out a ticket that
// executes exactly what the person saw, once.
//
// An approval is bound to a digest over everything that makes the request what
// it is: tenant, principal, action and its definition, target, arguments and
// body, the header fields that say what is asked, and what the rule demands of
// whoever decides. The held request
// and the person's yes are sealed, so that an edited row is refused as tampered
// instead of executed; an identical retry finds its approval by the digest. Once
// nothing can execute it any more the request goes, and what is shown of it stays.
//
// Who decides may show that they are a person, by a PIN; a rule may demand it, or
// several different people, or certain ones. A yes may allow the like of a request
// for a while: each such execution still gets an approval of its own.
//
// It refuses: decisions by anyone but an operator, tickets after expiry by any
// clock seen so far, a second use, more than a capped number of open questions
// per principal, and the silent acceptance of what could not be shown in full.
// It never tells a requester how to accept.
//
// The caller's Authorization, Proxy-Authorization and Cookie fields, and the
// field of the service's own credential, are not kept with a held request: a
// request that runs on the caller's own login is finished by the caller's
// identical retry, not by [Desk.Held].
//
// Start reading at [Desk.Await]; the other side of the desk is [Desk.Accept].
package approval
