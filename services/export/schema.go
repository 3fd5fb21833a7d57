package export

import (
	"bytes"
	"encoding/json"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// schema is a JSON Schema, or a part of one. encoding/json writes its members
// sorted, so the text is always the same.
type schema map[string]any

// Schema is the JSON Schema (draft 2020-12) of service files, for editors. It
// knows every field, type and closed list of values of the format; what needs
// the whole file to be judged is left to `kimbap service validate`.
func Schema() []byte {
	root := service()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = services.SchemaURL
	root["title"] = "kimbap service file"
	root["$defs"] = schema{
		"action": action(), "arg": arg(), "auth": auth(), "command_spec": commandSpec(), "match": match(), "request": request(),
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil { // cannot be: it holds maps, lists and text
		panic("services/export: schema: " + err.Error())
	}
	return b.Bytes()
}

// object has these fields and no other.
func object(about string, required []string, fields schema) schema {
	out := schema{"type": "object", "description": about, "properties": fields, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func ref(name string) schema { return schema{"$ref": "#/$defs/" + name} }

// text is any plain value: YAML's numbers and booleans are taken as written.
func text(about string) schema {
	return schema{"type": []string{"string", "number", "boolean"}, "description": about}
}

func matching(about, pattern string) schema {
	return schema{"type": "string", "pattern": pattern, "description": about}
}

// textLike is text with a pattern, which holds for what is written as a string.
func textLike(about, pattern string) schema {
	s := text(about)
	s["pattern"] = pattern
	return s
}

func flag(about string, standard bool) schema {
	return schema{"type": "boolean", "description": about, "default": standard}
}

func oneOf(about string, values ...string) schema {
	return schema{"enum": values, "description": about}
}

func list(about string, of schema) schema {
	return schema{"type": "array", "items": of, "description": about}
}

// named are members whose names are the author's own.
func named(about string, of schema) schema {
	return schema{"type": "object", "additionalProperties": of, "description": about}
}

const namePattern = "^[a-z][a-z0-9-]{0,63}$"

func service() schema {
	out := object("One YAML file turns an API into actions.", []string{"name", "version", "actions"}, schema{
		"name":        matching("Name of the service.", namePattern),
		"version":     matching("Semantic version of this file.", `^\d+\.\d+\.\d+`),
		"description": text("What the service is."),
		"adapter":     oneOf("How its actions are done; http when left out.", "http", "command", "applescript"),
		"base_url":    text("Where the API lives: https://host[:port][/path]; http:// for loopback only."),
		"hosts":       list("Further hosts of the same API.", text("host[:port]")),
		"vars":        named("Parts of base_url and hosts that whoever installs the service fills in.", object("A variable.", []string{"pattern"}, schema{"pattern": text("What its value must match.")})),
		"allow_http":  flag("The credential may go over cleartext to other hosts than loopback.", false),
		"strict":      flag("Every body is read and checked against the arguments.", false),
		"aliases":     list("Other names of the service.", matching("An alias.", namePattern)),
		"auth":        ref("auth"),
		"placeholders": schema{
			"type": "object", "description": "What kimbap env exports in the place of keys, so that programs start.",
			"propertyNames": schema{"pattern": `^(([A-Z_][A-Z0-9_]*)?_)?(TOKEN|KEY|SECRET|PASSWORD|PASS|PAT|AUTH)$|^([A-Z_][A-Z0-9_]*)?_KEY_ID$`, "not": schema{"pattern": "^KIMBAP_"}}, "additionalProperties": textLike("A value that no real key has.", `^[A-Za-z0-9._~+/=:@-]{8,}$`),
		},
		"actions": schema{
			"type": "object", "minProperties": 1, "description": "What can be done, by name.",
			"propertyNames": schema{"pattern": namePattern}, "additionalProperties": ref("action"),
		},
		"triggers": object("When an agent should use the service.", nil, schema{
			"task_verbs": list("Verbs of the tasks.", text("A verb.")),
			"objects":    list("What the tasks are about.", text("A thing.")),
			"instead_of": list("What it replaces.", text("A way of doing it.")),
		}),
		"gotchas": list("Known traps.", object("A trap and the way out.", []string{"symptom", "recovery"}, schema{
			"symptom": text("What one sees."), "likely_cause": text("Why."), "recovery": text("What to do."),
			"severity": oneOf("How bad it is.", levels()...),
		})),
		"recipes": list("Tasks of several actions.", object("A task.", []string{"name"}, schema{
			"name": text("Its name."), "description": text("What it is for."), "steps": list("Its steps.", text("A step.")),
		})),
		"command_spec": ref("command_spec"),
		"target_app":   text("adapter applescript: the application."),
	})
	return out
}

func levels() []string { return []string{"low", "medium", "high", "critical"} }

func auth() schema {
	place := func(about, field string) schema {
		return object(about, []string{field}, schema{field: text("Its name.")})
	}
	return object("Where the credential goes.", []string{"type"}, schema{
		"type":           oneOf("The kind of place.", "none", "header", "bearer", "basic", "query", "body", "path", "oauth2"),
		"credential_ref": text("Name of the secret in the vault."),
		"caller":         oneOf("What happens to a credential that the caller sends.", "replace", "placeholder", "keep"),
		"keep_if":        text("A caller's value of this form is kept."),
		"form_field":     text("type bearer and header: a field of forms from which the service takes a key too; the placeholder in it does not leave."),
		"header":         object("type header: the field.", []string{"name"}, schema{"name": text("Name of the field."), "prefix": text("Text before the value.")}),
		"query":          place("type query: the parameter.", "name"),
		"body":           place("type body: the member or form field.", "field"),
		"path":           object("type path: the segment.", []string{"segment"}, schema{"segment": text("The placeholder that stands for it in paths, {token}."), "prefix": text("Text before the value, in the same segment.")}),
		"oauth2": object("type oauth2: where access tokens come from; they go as a bearer token.", []string{"token_url"}, schema{
			"grant":         oneOf("client_credentials: the client itself is given tokens, and no person signs in (RFC 6749 section 4.4).", runtime.GrantClientCredentials),
			"authorize_url": text("Where a person signs in, in a browser."), "token_url": text("Where tokens are given and renewed."),
			"device_url": text("Where a sign-in on another device begins (RFC 8628)."), "revoke_url": text("Where a grant is given back (RFC 7009)."),
			"issuer":      text("Who answers a sign-in in a browser, as the provider's metadata has it; an answer that says another, or none, is refused (RFC 9207)."),
			"scopes":      list("What is asked for.", text("One scope.")),
			"client_auth": oneOf("How the client's secret is shown.", "basic", "post"),
			"params":      named("Further parameters of the sign-in, or with a grant of each question for a token.", text("Its value.")),
		}),
		"basic": object("type basic: user and password.", nil, schema{
			"username": text("The user itself."), "username_ref": text("Name of the user in the vault."), "username_open": flag("The user in the vault is no secret: answers may hold it, and programs may have it.", false), "password_ref": text("Name of the password in the vault."),
		}),
	})
}
