// Package limit keeps the buckets of rate limits: policy says which ones a
// request takes from, this takes.
//
// A bucket is one moment in a store that all processes over a home share: the
// moment at which it is full again. So that a busy agent does not cost a write
// per request, a process leases several requests of a bucket at once. A lease
// holds one request at first; each that is used up within its second is
// followed by one twice as large, at most a quarter of the burst or 100. What of
// a lease is not used within its second is lost. Hence, exactly:
//
//   - in any time t, at most burst + (t + 1s) · rate requests pass, over all
//     processes, whatever dies and when;
//   - each process that stops in the middle of a lease costs the others at most
//     a quarter of the burst, or 100, once;
//   - an empty bucket is not asked again before it can have anything: refusing
//     costs no write.
//
// A store that does not answer is an error, and the request is refused. Nothing
// here reads a clock.
//
// Start reading at [Limiter.Take].
package limit
