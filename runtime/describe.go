package runtime

import "regexp"

// Described is an action as it is told to others, in JSON: what a form for it
// needs, and nothing of how the request is built or which credential it gets.
type Described struct {
	Action       Ref              `json:"action"`
	Service      string           `json:"service"`
	Name         string           `json:"name"`
	Description  string           `json:"description"`
	Risk         Risk             `json:"risk"`
	GrantsAccess bool             `json:"grants_access,omitempty"`
	Idempotent   bool             `json:"idempotent"`
	Method       string           `json:"method,omitempty"`
	Methods      []string         `json:"methods,omitempty"` // all of them, where there are several
	Path         string           `json:"path,omitempty"`
	Hosts        []string         `json:"hosts,omitempty"`
	BodyType     string           `json:"body_type,omitempty"`
	Pages        bool             `json:"pages,omitempty"`
	Program      string           `json:"program,omitempty"`
	Words        []string         `json:"words,omitempty"`
	Args         []DescribedParam `json:"args"`
}

// DescribedParam is one argument of it.
type DescribedParam struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Type        ParamType `json:"type"`
	In          Place     `json:"in,omitempty"`
	Required    bool      `json:"required,omitempty"`
	Nullable    bool      `json:"nullable,omitempty"`
	Secret      bool      `json:"secret,omitempty"`
	Default     any       `json:"default,omitempty"`
	Enum        []any     `json:"enum,omitempty"`
	Pattern     string    `json:"pattern,omitempty"`
	Minimum     *float64  `json:"minimum,omitempty"`
	Maximum     *float64  `json:"maximum,omitempty"`
	MinLength   *int      `json:"min_length,omitempty"`
	MaxLength   *int      `json:"max_length,omitempty"`
	Split       string    `json:"split,omitempty"`
}

// Describe tells of an action.
func (a *Action) Describe() Described {
	d := Described{
		Action: a.Ref, Service: a.Service, Name: a.Name, Description: a.Description, Risk: a.Risk,
		GrantsAccess: a.GrantsAccess, Idempotent: a.Idempotent, Args: []DescribedParam{},
	}
	if h := a.HTTP; h != nil {
		d.Method, d.Methods, d.Path, d.Hosts, d.BodyType, d.Pages = h.Method, h.Methods, h.Path, h.Authorities, h.BodyType, h.Pages != nil
	}
	if c := a.Command; c != nil {
		d.Program, d.Words = c.Executable, c.Fixed
	}
	for i := range a.Params {
		p := &a.Params[i]
		one := DescribedParam{
			Name: p.Name, Description: p.Description, Type: p.Type, In: p.In, Required: p.Required, Nullable: p.Nullable, Secret: p.Secret, Default: p.Default,
			Enum: p.Enum, Minimum: p.Minimum, Maximum: p.Maximum, MinLength: p.MinLength, MaxLength: p.MaxLength, Split: p.Split,
		}
		if p.Pattern != nil {
			one.Pattern = p.Pattern.String()
		}
		d.Args = append(d.Args, one)
	}
	return d
}

// Told is the action that was described, as far as it was: enough to read its
// arguments from flags, not to do it. A pattern that cannot be compiled is left to
// whoever does it.
func (d Described) Told() *Action {
	a := &Action{
		Ref: d.Action, Service: d.Service, Name: d.Name, Description: d.Description, Risk: d.Risk,
		GrantsAccess: d.GrantsAccess, Idempotent: d.Idempotent, Auth: &Auth{Type: AuthNone},
	}
	if d.Method != "" {
		a.HTTP = &HTTPSpec{Method: d.Method, Methods: d.Methods, Path: d.Path, Authorities: d.Hosts, BodyType: d.BodyType}
		if d.Pages {
			a.HTTP.Pages = &Pagination{}
		}
	} else {
		a.Command = &CommandSpec{Executable: d.Program, Fixed: d.Words}
	}
	for _, p := range d.Args {
		one := Param{
			Name: p.Name, Description: p.Description, Type: p.Type, In: p.In, Required: p.Required, Nullable: p.Nullable, Secret: p.Secret, Default: p.Default,
			Enum: p.Enum, Minimum: p.Minimum, Maximum: p.Maximum, MinLength: p.MinLength, MaxLength: p.MaxLength, Split: p.Split,
		}
		if p.Pattern != "" {
			one.Pattern, _ = regexp.Compile(p.Pattern)
		}
		a.Params = append(a.Params, one)
	}
	return a
}
