package runtime

// What the body of a request holds is not known until it is read, which most requests never
// need. These say what may stand there.

// Unread reports whether there is a body of which nobody has read what it says.
func (r *Request) Unread() bool { return r.Raw != nil && r.Raw.Body != nil && !r.Parsed }

// Hides reports whether an argument may stand in the body, which was not read: beside those of
// the body, one of the query, which some servers take from a form too.
func (r *Request) Hides(p *Param) bool {
	return r.Unread() && (p.Body || p.In == InQuery && r.Fields)
}

// HidesSecret reports whether a secret argument may stand in the body, which was not read.
// Whoever is shown such a body as it came is shown the secret.
func (c *Call) HidesSecret() bool {
	for i := range c.Action.Params {
		if p := &c.Action.Params[i]; p.Secret && c.Request.Hides(p) {
			return true
		}
	}
	return false
}

// unreadSecret is the refusal of a request that a person would be asked about, whose secret
// arguments cannot be told from the rest of its body. To show none of it would ask for a yes
// to anything.
func unreadSecret(err error) error {
	e := *AsError(err)
	if e.Reason == ReasonUnsupportedMedia {
		e.Hint = "a person decides about this action and is not shown its secret arguments: send its body as JSON or as a form (application/x-www-form-urlencoded), in which kimbap finds them"
	}
	return &e
}
