package openapi

import (
	"slices"
	"strings"
)

// risk guesses what an operation can do from its method, and from its words
// whether it hands out lasting power. The words are meant to find too much: the
// report names what they found, and the author of the file has the last word.
func risk(o *operation) (level string, grants bool) {
	switch o.method {
	case "GET", "HEAD", "OPTIONS":
		if leaks(o) {
			return "critical", true
		}
		if removes(o) || opens(o) {
			return "high", false
		}
		return "low", false
	case "DELETE":
		return "high", false
	}
	if grantsAccess(o) {
		return "critical", true
	}
	if removes(o) || opens(o) {
		return "high", false
	}
	return "medium", false
}

// opens finds what lets anything follow that nobody judges: a command in a container, or a
// connection to it. Kubernetes asks for these with a GET that becomes a WebSocket.
func opens(o *operation) bool {
	for segment := range strings.SplitSeq(o.sent, "/") {
		if slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, segment) {
			return true
		}
	}
	return false
}

// removes finds what deletes by another method than DELETE, as APIs do whose paths
// are calls: /chat.delete, /things/removeAll.
func removes(o *operation) bool {
	return slices.ContainsFunc(words(o), func(word string) bool {
		return slices.Contains([]string{"delete", "remove", "destroy", "purge", "erase", "wipe"}, word)
	})
}

// words are those of the path, without placeholders, and of the name.
func words(o *operation) []string {
	var out []string
	for segment := range strings.SplitSeq(o.sent, "/") {
		if said := kebab(fixed(segment)); said != "" {
			out = append(out, strings.Split(said, "-")...)
		}
	}
	return append(out, strings.Split(kebab(o.id), "-")...)
}

// pathAlone is a path without what tells operations of one path apart in a document.
func pathAlone(path string) string {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		return path[:end]
	}
	return path
}

// fixed is what a segment says beside its placeholders, as the custom method of "{name}:delete".
func fixed(segment string) string { return variable().ReplaceAllString(segment, " ") }

// powerful are words of things that go on working after the call.
func powerful() []string {
	return []string{
		"token", "tokens", "key", "keys", "apikey", "apikeys", "credential", "credentials", "oauth", "oauth2", "oidc", "saml", "sso", "scim",
		"password", "passwords", "certificate", "certificates", "session", "sessions",
		"webhook", "webhooks", "hook", "hooks", "collaborator", "collaborators", "collaboration", "collaborations", "member", "members", "membership", "memberships",
		"invite", "invites", "invitation", "invitations", "runner", "runners", "jitconfig", "role", "roles", "permission", "permissions",
		"acl", "acls", "policy", "policies", "owners", "admins", "grant", "grants", "installation", "installations",
		"authorization", "authorizations", "authorize", "login", "impersonate", "share", "sharing", "public", "transfer",
		"approve", "access", "assign", "managers", "manifests", "claim", "usergroups", "discoverability", "expiration",
	}
}

func grantsAccess(o *operation) bool {
	all := words(o)
	for i, word := range all {
		before := ""
		if i > 0 {
			before = all[i-1]
		}
		if before == "client" && strings.HasPrefix(word, "secret") || before == "service" && word == "accounts" || before == "set" && (word == "admin" || word == "owner" || word == "regular") {
			return true
		}
		if !slices.Contains(powerful(), word) {
			continue
		}
		// Tokens of text, keys of a map: "input_tokens", "count-tokens".
		if strings.HasPrefix(word, "token") && slices.Contains([]string{"input", "output", "count", "max"}, before) {
			continue
		}
		return true
	}
	return joins(all)
}

// joins finds who is put together with what: users in groups, groups in
// projects, teams, repositories that may read a secret, addresses of a user.
func joins(all []string) bool {
	has := func(list ...string) bool {
		return slices.ContainsFunc(all, func(word string) bool { return slices.Contains(list, word) })
	}
	switch {
	case has("teams", "team") && !has("discussions", "comments", "reactions"):
		return true
	case has("groups", "group", "projects", "organization", "organizations", "workspaces") && has("users", "groups") && !has("search"):
		return true
	}
	return has("secrets") && has("repositories") || has("user") && has("emails")
}

// leaks finds reads whose answer is a secret: the last word of the path is one.
// A list of what is known about secrets ends in another.
func leaks(o *operation) bool {
	path := strings.TrimRight(pathAlone(o.sent), "/") // Django's end in one
	all := strings.Split(kebab(fixed(path[strings.LastIndexByte(path, '/')+1:])), "-")
	if strings.Contains(path, "/secret-scanning/alerts") { // their secrets are what was found
		return true
	}
	return slices.Contains([]string{"token", "secret", "password", "credentials", "jitconfig", "reveal"}, all[len(all)-1]) || slices.Contains(all, "oauth")
}

// idempotent follows RFC 9110 section 9.2.2.
func idempotent(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}, method)
}

// secretArg reports whether an argument of a query, a body or a field of a head is
// a secret by its name or format. A segment's name is mostly that of a thing, which
// people must see to judge: /secrets/{secret}.
func secretArg(p *arg) bool {
	if p.typ != "string" || p.enum != nil {
		return false
	}
	if p.format == "password" {
		return true
	}
	all := strings.Split(kebab(p.name), "-")
	last := all[len(all)-1]
	switch last {
	case "password", "passwd", "passcode", "secret", "passphrase", "apikey", "pin", "otp", "cvc", "cvv":
		return true
	case "key":
		return len(all) > 1 && slices.Contains([]string{"private", "secret", "api", "signing", "encryption"}, all[len(all)-2])
	case "token":
		return len(all) > 1 && slices.Contains([]string{"access", "refresh", "auth", "bearer", "api", "client", "secret", "id", "bot"}, all[len(all)-2])
	}
	return false
}
