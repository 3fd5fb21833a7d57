package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// dialect is how a document is written: OpenAPI 3 (3.0 and 3.1), or Swagger 2.0.
type dialect int

const (
	openAPI dialect = iota
	swagger
)

// document is the description that is imported.
type document struct {
	*library
	dialect
	root value
	at   *url.URL // where it was fetched from; nil for one of a file
}

// operation is one method of one path, as the document has it.
type operation struct {
	method, path string
	sent         string            // the path, with what spans segments taken apart
	apart        map[string]string // placeholders of sent to what the parameter is: {name} to users/{name}
	unsure       bool              // a parameter may span more segments, or fewer
	id, summary  string
	tags         []string
	deprecated   bool
	item, object value    // the path item and the operation object
	servers      []string // its own; none when it is where the rest is
}

func (o *operation) String() string { return o.method + " " + o.path }

// openDocument reads the document and says which dialect it is.
func openDocument(l *library, name string) (*document, error) {
	f, err := l.file(name)
	if err != nil {
		return nil, err
	}
	d := &document{library: l, root: value{in: f, v: f.root}}
	version := cmp.Or(d.root.text("openapi"), string(number(d.root.get("openapi").v))) // YAML has 3.1 for a number
	switch old := d.root.get("swagger").v; {
	case strings.HasPrefix(version, "3."):
		l.beside = !strings.HasPrefix(version, "3.0")
	case old != nil && strings.HasPrefix(fmt.Sprint(old), "2"):
		d.dialect = swagger
	case version != "":
		return nil, fmt.Errorf("openapi %s is not a version that can be read: 3.0, 3.1 and swagger 2.0 are", shown(version))
	default:
		return nil, fmt.Errorf("it has no field openapi or swagger, so it is no OpenAPI description")
	}
	return d, nil
}

// methods are the fields of a path item that hold an operation.
func methods() []string {
	return []string{"get", "head", "post", "put", "patch", "delete", "options", "trace", "query"}
}

// operations lists all operations by path and method. What cannot be one is noted as left
// out, and returned as unread. Of a path item that cannot be read any method may be one;
// nothing is lost of a DELETE, which is high risk everywhere.
func (d *document) operations(skip func(what, why string)) (out, unread []*operation) {
	paths := d.root.get("paths")
	for _, path := range slices.Sorted(maps.Keys(paths.members())) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := d.over(paths.get(path), 0) // what stands beside its $ref counts too
		if err == nil && item.members() == nil {
			err = errNoObject
		}
		if err != nil {
			skip(path, err.Error())
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch} {
				unread = append(unread, &operation{method: method, path: path, sent: path})
			}
			continue
		}
		for _, method := range methods() {
			if item.get(method).v == nil {
				continue
			}
			o := &operation{method: strings.ToUpper(method), path: path, sent: path, item: item}
			if o.object, err = d.object(item.get(method)); err == nil {
				err = d.describe(o)
			}
			if err != nil {
				skip(o.String(), err.Error())
				o.unsure = errors.Is(err, errTooMany) && strings.Contains(o.path, "{")
				unread = append(unread, o)
				continue
			}
			out = append(out, o)
		}
	}
	return out, unread
}

var errNoObject = errors.New("it is no object")

// object follows a value to the object that it stands for.
func (d *document) object(v value) (value, error) {
	v, err := d.follow(v)
	if err == nil && v.members() == nil {
		err = errNoObject
	}
	return v, err
}

// describe reads what an operation says of itself.
func (d *document) describe(o *operation) error {
	listed := 1
	for _, field := range []string{"parameters", "servers", "tags"} {
		listed += o.item.count(field) + o.object.count(field)
	}
	if !d.affords(listed) {
		return errTooMany
	}
	if err := d.takeApart(o); err != nil {
		return err
	}
	o.id, o.deprecated, o.tags = o.object.text("operationId"), o.object.is("deprecated"), o.object.texts("tags")
	for _, text := range []string{o.object.text("summary"), o.item.text("summary"), o.object.text("description")} {
		if o.summary = sentence(text); o.summary != "" {
			break
		}
	}
	for _, level := range []value{o.object, o.item} {
		if o.servers != nil {
			break
		}
		for _, one := range level.list("servers") {
			o.servers = append(o.servers, one.text("url"))
		}
	}
	return nil
}

// parameter is one parameter of an operation.
type parameter struct {
	name, in string // path, query, header, cookie, body, formData
	required bool
	shape
	object   value // the parameter
	schema   value
	segments bool // it may hold slashes
	asJSON   bool // content: application/json
}

// parameters are those of the path item and of the operation, which replace
// them by name and place.
func (d *document) parameters(s *schemas, o *operation) ([]parameter, error) {
	var out []parameter
	for _, object := range append(o.item.list("parameters"), o.object.list("parameters")...) {
		object, err := d.follow(object)
		if err != nil {
			return nil, err
		}
		p, err := d.parameter(s, object)
		if err != nil {
			return nil, err
		}
		same := slices.IndexFunc(out, func(q parameter) bool { return q.name == p.name && q.in == p.in })
		if same >= 0 {
			out[same] = p
		} else {
			out = append(out, p)
		}
	}
	return out, nil
}

func (d *document) parameter(s *schemas, object value) (parameter, error) {
	p := parameter{
		name: object.text("name"), in: object.text("in"), required: object.is("required"),
		segments: object.is("x-multi-segment"), object: object, schema: object.get("schema"),
	}
	if p.name == "" || p.in == "" {
		return p, fmt.Errorf("a parameter has no name or no place")
	}
	switch {
	case d.dialect == swagger && p.in != "body":
		p.schema = object
	case p.schema.v == nil && object.get("content").v != nil:
		content := object.get("content")
		for _, media := range slices.Sorted(maps.Keys(content.members())) {
			p.schema, p.asJSON = content.get(media).get("schema"), isJSON(media)
			break
		}
	}
	if p.in == "body" {
		return p, nil
	}
	var err error
	p.shape, err = s.shape(p.schema, 0)
	if text := object.text("description"); text != "" {
		p.description = text
	}
	return p, err
}

// payload is the body that an operation is imported with.
type payload struct {
	kind     string // json, form, multipart, raw
	media    string
	required bool
	schema   value
	fields   []parameter // Swagger 2.0: formData
	text     string      // description
}

// payload chooses among the media types: JSON, a form, parts, else bytes. It is
// nil when the operation takes no body.
func (d *document) payload(o *operation, params []parameter) (*payload, error) {
	if d.dialect == swagger {
		return d.oldPayload(o, params), nil
	}
	if o.object.get("requestBody").v == nil {
		return nil, nil
	}
	body, err := d.follow(o.object.get("requestBody"))
	if err != nil {
		return nil, err
	}
	content := body.get("content")
	media, kind := choose(slices.Sorted(maps.Keys(content.members())))
	if media == "" {
		return nil, nil
	}
	schema := content.get(media).get("schema")
	return &payload{kind: kind, media: media, required: body.is("required"), schema: schema, text: body.text("description")}, nil
}

func (d *document) oldPayload(o *operation, params []parameter) *payload {
	consumes := o.object.texts("consumes")
	if len(consumes) == 0 {
		consumes = d.root.texts("consumes")
	}
	var fields []parameter
	for _, p := range params {
		switch p.in {
		case "body":
			media, kind := choose(consumes)
			if media == "" || kind == "form" || kind == "multipart" {
				media, kind = "application/json", "json"
			}
			return &payload{kind: kind, media: media, required: p.required, schema: p.schema, text: p.object.text("description")}
		case "formData":
			fields = append(fields, p)
		}
	}
	if fields == nil {
		return nil
	}
	kind := "form"
	parts := slices.ContainsFunc(fields, func(p parameter) bool { return p.object.text("type") == "file" })
	if parts || slices.Contains(consumes, "multipart/form-data") && !slices.Contains(consumes, "application/x-www-form-urlencoded") {
		kind = "multipart"
	}
	return &payload{kind: kind, required: true, fields: fields}
}

// choose picks the media type that an action sends.
func choose(list []string) (media, kind string) {
	rank := func(media string) (int, string) {
		switch base, _, _ := strings.Cut(strings.ToLower(media), ";"); {
		case base == "application/json":
			return 7, "json"
		case base == "application/json-patch+json": // a list of changes, in the place of an object
			return 5, "json"
		case isJSON(base):
			return 6, "json"
		case base == "application/x-www-form-urlencoded":
			return 4, "form"
		case base == "multipart/form-data":
			return 3, "multipart"
		case base == "*/*":
			return 2, "json"
		}
		return 1, "raw"
	}
	best := 0
	for _, m := range list {
		if r, k := rank(m); r > best {
			best, media, kind = r, m, k
		}
	}
	return media, kind
}

func isJSON(media string) bool {
	base, _, _ := strings.Cut(strings.ToLower(media), ";")
	return base == "application/json" || strings.HasSuffix(base, "+json")
}
