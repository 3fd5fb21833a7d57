package mcp

import (
	"encoding/json"
	"math"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/kimbap-run/kimbap/internal/object"
)

// doubled is the error of a message in which a member stands twice, nil of others: the SDK
// takes the last of two, and who looked at it on its way here may have taken the first.
// Inside of the arguments of a tool it is for who reads those (see read) to say so: a model
// hears of that. The message is one JSON value.
func doubled(message []byte) *jsonrpc.Error {
	const inParams = 2 // levels: the message itself, and what is directly in it
	name, is := object.Twice(message, inParams)
	m := members(message)
	parts := members(m["params"])
	delete(parts, "arguments")
	for _, part := range parts {
		if is {
			break
		}
		name, is = object.Twice(part, math.MaxInt)
	}
	if !is {
		return nil
	}
	return invalidRequest(object.TwiceText(name))
}

// idOf is the id of a message, nil where it has two, and of what is not JSON.
func idOf(message []byte) json.RawMessage {
	if !json.Valid(message) {
		return nil
	}
	if name, is := object.Twice(message, 1); is && name == "id" {
		return nil
	}
	return members(message)["id"]
}
