package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// How many items a list has on a page.
const (
	pageLimit    = 100
	maxPageLimit = 500
)

// page writes the part of a list that was asked for.
func (s *Server) page(w http.ResponseWriter, r *http.Request, a visit, items []Item, err error) error {
	if err != nil {
		return err
	}
	limit, after, err := s.where(r, a)
	if err != nil {
		return err
	}
	if after != "" {
		at := slices.IndexFunc(items, func(i Item) bool { return i.Key == after })
		if at < 0 {
			return badCursor("the list has changed since")
		}
		items = items[at+1:]
	}
	return s.writePage(w, r, a, items, limit)
}

// writePage writes the first items, and where the next page begins if there are more.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, a visit, items []Item, limit int) error {
	out := struct {
		Items []any  `json:"items"`
		Next  string `json:"next_cursor,omitempty"`
	}{Items: []any{}}
	for i, item := range items {
		if i == limit {
			out.Next = s.cursor(r, a, items[i-1].Key)
			break
		}
		out.Items = append(out.Items, item.Body)
	}
	return answerJSON(w, http.StatusOK, out, nil)
}

// where reads limit and cursor.
func (s *Server) where(r *http.Request, a visit) (limit int, after string, err error) {
	q := r.URL.Query()
	limit = pageLimit
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, "", invalid("write a number from 1 to 500", "limit is not one")
		}
		limit = min(n, maxPageLimit)
	}
	text := q.Get("cursor")
	if text == "" {
		return limit, "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) <= sha256.Size {
		return 0, "", badCursor("it is not one of ours")
	}
	after = string(data[sha256.Size:])
	if !hmac.Equal(data[:sha256.Size], s.sign(r, a, after)) {
		return 0, "", badCursor("it is of another list, another caller or an earlier start of kimbap")
	}
	return limit, after, nil
}

// cursor names where the next page begins. It holds for this caller and this list.
func (s *Server) cursor(r *http.Request, a visit, after string) string {
	return base64.RawURLEncoding.EncodeToString(append(s.sign(r, a, after), after...))
}

func (s *Server) sign(r *http.Request, a visit, after string) []byte {
	q := r.URL.Query()
	q.Del("cursor")
	q.Del("limit")
	mac := hmac.New(sha256.New, s.cursors[:])
	for _, part := range []string{string(a.who.Tenant), a.who.ID, r.URL.Path, q.Encode(), after} {
		mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return mac.Sum(nil)
}

func badCursor(why string) error {
	return invalid("leave cursor out to start again", "the cursor cannot be used: "+why)
}

// noParameter is the error of a parameter that means nothing here.
func noParameter(name string, known []string) error {
	if len(known) == 0 {
		return invalid("say it in the body, where the page takes one: /v1/openapi.json", "this page takes no query")
	}
	why := fmt.Sprintf("there is no parameter %.40q", name)
	if near := runtime.Nearest(strings.ToLower(name[:min(len(name), 40)]), known); near != "" {
		why += "; did you mean " + near + "?"
	}
	return invalid("known here: "+strings.Join(known, ", "), why)
}

// onlyQuery refuses parameters that mean nothing here, and those that come twice.
func onlyQuery(r *http.Request, known ...string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("write name=value&name=value", "the query is not one")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			return noParameter(name, known)
		}
		if len(q[name]) > 1 {
			return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonDuplicateParameter, Msg: name + " stands twice in the query", Hint: "give it once"}
		}
	}
	return nil
}
