// Package approval is stage 3b: it holds a request that policy wants a person to see, and
// gives out a ticket that executes exactly what the person saw, once.
//
// An approval is bound to a digest of everything that defines the request: tenant,
// principal, action and its definition, target, arguments and body, the header fields that
// say what is asked, and what the rule demands of whoever decides. The held request and the
// person's yes are sealed, so an edited row is refused as tampered instead of executed. An
// identical retry finds its approval by the digest. Once nothing can execute an approval
// any more, its request is deleted; what is shown of it stays.
//
// A person can prove with a PIN that they decide. A rule may demand the PIN, several
// different people, or certain ones. A yes may allow similar requests for a while: each such
// execution still gets an approval of its own.
//
// It refuses
//
//   - decisions by anyone but an operator,
//   - tickets after expiry, by any clock seen so far, and a second use,
//   - more than a capped number of open questions per principal,
//   - the silent acceptance of what could not be shown in full.
//
// It tells nobody more than they may know, and never tells a requester how to accept.
//
// The caller's Authorization, Proxy-Authorization and Cookie fields, and the field of the
// service's own credential, are not kept with a held request, but for a placeholder. A request
// that uses the caller's own login is therefore finished by the caller's identical retry, and
// [Desk.Held] refuses it. Where such a login takes the place of a stored key, or goes out since
// none is stored, the approval is bound to it by a keyed hash. Of an action without auth, and of
// the Cookie of any service, nothing is known of what a login does there: such a request is
// collected without it, and no yes is bound to it.
//
// Start reading at [Desk.Await]; the person's side is [Desk.Accept].
package approval
