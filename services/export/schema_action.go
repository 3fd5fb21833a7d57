package export

func action() schema {
	method := matching("A method, in capitals.", "^[A-Z][A-Z_-]*$")
	return object("One thing that can be done.", nil, schema{
		"description": text("What it does, in a few words; its name in words when left out."),
		"method":      schema{"description": "The method, or several.", "oneOf": []schema{method, list("Several methods.", method)}},
		"path":        matching("Below base_url: literals, {name}, {name:int}, {name...}, {name}:verb, **.", "^/"),
		"host":        text("The one host of the service that it is at; all when left out."),
		"idempotent":  flag("Doing it twice is the same as once.", false),
		"allow_slash": flag("%2F may stand inside parameters and **.", false),
		"websocket":   flag("An upgrade to websocket may pass; true for GET when left out.", true),
		"audit":       oneOf("How arguments of the body are recorded.", "keyed", "plain"),
		"risk": object("How much harm it can do.", nil, schema{
			"level": oneOf("By the method when left out.", levels()...), "grants_access": flag("It hands out lasting power: keys, tokens, invitations, webhooks.", false),
		}),
		"args":    list("Its arguments.", ref("arg")),
		"request": ref("request"),
		"match":   ref("match"),
		"response": object("The answer, for call and exec only.", nil, schema{
			"type": oneOf("What it is.", types()...), "filter": text("A jq expression on it."),
			"text_filter": text("adapter command: a jq expression on an answer that is no JSON, as one text."),
		}),
		"pagination": object("How further pages are asked for.", []string{"type"}, schema{
			"type": oneOf("How.", "link", "cursor", "page"), "next": text("type cursor: where the next one stands."), "param": text("The parameter that takes it."),
		}),
		"retry": object("Only for idempotent actions.", nil, schema{
			"attempts": schema{"type": "integer", "minimum": 1, "maximum": 10, "description": "How often in all."},
			"on":       list("Statuses that are tried again.", schema{"type": "integer", "minimum": 400, "maximum": 599}),
		}),
		"errors": named("What statuses mean.", object("A meaning.", []string{"code", "message"}, schema{
			"code": matching("A word like not_found.", "^[a-z][a-z0-9_]*$"), "message": text("A sentence; it may name arguments in braces."),
		})),
		"command": schema{"description": "adapter command: the words that come first.", "oneOf": []schema{text("One text, split at spaces."), list("Words.", text("A word."))}},
		"inline_script": object("adapter applescript: what osascript runs.", []string{"source"}, schema{
			"language": oneOf("Its language.", "jxa", "applescript"), "source": text("The script; arguments are in args."),
		}),
	})
}

func types() []string {
	return []string{"string", "integer", "number", "boolean", "array", "object"}
}

func arg() schema {
	number := schema{"type": "number"}
	return object("One argument.", []string{"name"}, schema{
		"name":        matching("Its name.", "^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"),
		"description": text("What it is."),
		"type":        oneOf("string when left out.", types()...),
		"required":    flag("It must be given.", false),
		"nullable":    flag("It may be null: a member of a JSON body.", false),
		"enum":        schema{"type": "array", "minItems": 1, "description": "The values it may have; of an array, its elements.", "items": text("A value.")},
		"pattern":     text("A regular expression (RE2) that it must match."),
		"minimum":     number,
		"maximum":     number,
		"default":     schema{"description": "What it is when it is not given."},
		"secret":      flag("It is never recorded.", false),
		"rest":        flag("An object that collects all arguments that are not declared.", false),
		"split":       text("Like {owner}/{repo}: one text fills several arguments."),
		"style":       oneOf("adapter command: how it stands on the command line.", "flag", "positional", "boolean"),
	})
}

func request() schema {
	return object("Where the arguments go; by name to the query or the body when left out.", nil, schema{
		"path_params": named("Placeholders of the path.", text("A text with {argument}.")),
		"query":       named("Parameters.", text("A text with {argument}.")),
		"headers":     named("Fields.", text("A text with {argument}.")),
		"body":        schema{"description": "A tree with {argument} in its texts, or \"{argument}\" for one that is the whole body."},
		"body_type":   oneOf("How the body is written; json when left out.", "json", "form", "multipart", "raw"),
	})
}

func match() schema {
	values := func(about, value string) schema {
		one := text(value)
		one["type"] = []string{"string", "number", "boolean", "null"}
		return named(about, one)
	}
	const inHead = "The exact value; of several, joined by |, one is enough; * for any."
	const inBody = "The exact value; * for any but null."
	return object("What tells the action from others of the same method and path.", nil, schema{
		"query":  values("Parameters.", inHead),
		"header": values("Fields.", inHead),
		"body":   values("JSON pointers; of several, joined by |, one is enough.", inBody),
		"graphql": object("The operation that is executed.", nil, schema{
			"type": oneOf("Its type.", "query", "mutation", "subscription"), "operation": text("Its name."),
			"fields": schema{"description": "Names of root fields, with * for any letters, and behind **. of fields at any depth; of several one is enough, and ! takes one out.", "oneOf": []schema{text("A name."), list("Names.", text("A name."))}},
		}),
		"jsonrpc": object("The method that is called.", []string{"method"}, schema{
			"method": text("Its name, like tools/call."), "params": values("JSON pointers below params.", inBody),
		}),
	})
}

func commandSpec() schema {
	return object("adapter command: the program.", []string{"executable"}, schema{
		"executable":      text("Its name, or an absolute path."),
		"json_flag":       text("What makes it answer in JSON."),
		"timeout":         text("A time like 30s."),
		"env_inject":      named("Variables of the program.", text("A text with {credential} or {username}.")),
		"env_passthrough": list("Variables that it gets from kimbap's own environment.", text("A name.")),
		"working_dir":     text("An absolute path, or . for the folder of the call."),
		"merge_stderr":    flag("What it says on stderr is part of the answer.", false),
		"success_codes":   list("Exit codes of an answer.", schema{"type": "integer", "minimum": 0, "maximum": 255}),
	})
}
