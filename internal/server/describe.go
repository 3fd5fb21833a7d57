package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// openapi describes every page there can be (OpenAPI 3.1).
//
//go:embed openapi.json
var openapi []byte

// optional says of a description that some of who ask need no token: on the socket of a daemon
// the kernel says who asks.
var optional = json.RawMessage(`[{}, {"token": []}]`)

// describe is the description of the pages that this server has, and of whether each needs a token.
func describe(routes chi.Routes, requireToken bool) ([]byte, error) {
	var document map[string]json.RawMessage
	if err := json.Unmarshal(openapi, &document); err != nil {
		return nil, err
	}
	var all map[string]map[string]json.RawMessage
	if err := json.Unmarshal(document["paths"], &all); err != nil {
		return nil, err
	}
	mine := map[string]map[string]json.RawMessage{}
	err := chi.Walk(routes, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if text, described := all[path][strings.ToLower(method)]; described {
			if mine[path] == nil {
				mine[path] = map[string]json.RawMessage{}
			}
			mine[path][strings.ToLower(method)] = text
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if document["paths"], err = json.Marshal(mine); err != nil {
		return nil, err
	}
	if !requireToken {
		document["security"] = optional
	}
	return json.Marshal(document)
}

func (s *Server) description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.described)
}
