package runtime

import (
	"net/http"
	"strings"
)

// Page returns the origin of the web page on whose behalf a browser sends the request, where
// that is not the target's own: "https://example.com:8443", or [anyPage] where the browser
// does not name it. It is "" for programs, for pages of the target, and for a page of another
// origin that is only left for the target by a link.
//
// A browser runs the scripts of whoever wrote the page, and each of them may send a request
// anywhere. What protects the target elsewhere is that such a request has no credential: the
// one that kimbap adds would be its to use, and where the target lets all origins read
// (Access-Control-Allow-Origin: *, as public APIs do), the answer too. So it gets none, and
// asks nobody: see [Pipeline.credential] and [refusal].
//
// What says so is written by the browser and out of a page's reach: Sec-Fetch-Site and its kin
// (W3C Fetch Metadata), or Origin (RFC 6454 section 7) where they are missing, as in the
// handshakes of WebSocket and in cleartext.
func (r *Request) Page() string {
	if r.Raw == nil || r.Followed {
		return ""
	}
	header := r.Raw.Header
	sites, origins := header["Sec-Fetch-Site"], header["Origin"]
	if len(sites) == 0 && len(origins) == 0 {
		return ""
	}
	if len(sites) > 0 && ownSite(sites) || r.left(sites) {
		return ""
	}
	if len(origins) != 1 || origins[0] == "" {
		return anyPage
	}
	if len(sites) == 0 && sameOrigin(origins[0], &r.Target) {
		return ""
	}
	return Printable(origins[0])
}

// anyPage stands for the origin of a page that is not named, or not once.
const anyPage = "another origin"

// ownSite reports whether the target's own page sends a request, or the browser's user.
func ownSite(sites []string) bool {
	return len(sites) == 1 && (sites[0] == "same-origin" || sites[0] == "none")
}

// left reports whether the page is left for the target by a link: nobody but the target's own
// page then sees what comes. A form is none, which may hold anything, and neither is a frame.
func (r *Request) left(sites []string) bool {
	header := r.Raw.Header
	return len(sites) == 1 && (r.Target.Method == http.MethodGet || r.Target.Method == http.MethodHead) &&
		header.Get("Sec-Fetch-Mode") == "navigate" && header.Get("Sec-Fetch-Dest") == "document"
}

// sameOrigin reports whether an Origin is that of the target.
func sameOrigin(origin string, t *Target) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || !strings.EqualFold(scheme, t.Scheme) {
		return false
	}
	if name, port := SplitAuthority(host); port == "" {
		host = name + ":" + DefaultPort(t.Scheme)
	}
	return strings.EqualFold(host, t.Authority)
}

// ofPage is the refusal of what a page may not do on anybody's behalf.
func ofPage(page, what string) *Error {
	return &Error{
		Code: CodeForbidden, Reason: ReasonOtherPage,
		Msg:  "a web page of " + page + " has the browser send this, and " + what,
		Hint: "let a program send it, without Origin and Sec-Fetch-Site by which it is taken for a page, or the page's own server",
	}
}

// OfPage is the refusal of a page's request with a credential, its own or a placeholder, where
// one is stored: see [Call.Withheld].
func OfPage(page string) *Error {
	return ofPage(page, "the credential in it would stand in the place of the stored one")
}
