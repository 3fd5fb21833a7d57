package app_test

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

func TestOnlyTheCommandTouchesTheProcess(t *testing.T) {
	banned := []string{"Args", "Exit", "Getenv", "LookupEnv", "Environ", "Setenv", "Stdout", "Stderr", "Stdin"}
	for _, s := range load(t) {
		if s.test || s.dir == "cmd/kimbap" || slices.Contains(doubles, s.dir) {
			continue
		}
		osName := importName(s.file, "os")
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == osName && id.Obj == nil && slices.Contains(banned, sel.Sel.Name) {
				t.Errorf("%s: os.%s: only cmd/kimbap touches the process; take the value in Options", s.fset.Position(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

// Nothing outside tests turns verification off, leaves the TLS version to
// chance, or uses the interception that goproxy has by itself, whose signing key
// everybody can read.
func TestNoCodeTrustsWithoutProof_TL002(t *testing.T) {
	banned := []string{"InsecureSkipVerify", "GoproxyCa", "MitmConnect", "OkConnect", "HTTPMitmConnect", "AlwaysMitm", "SetCertStore"}
	found := 0
	for _, s := range load(t) {
		if s.test || slices.Contains(doubles, s.dir) {
			continue
		}
		tlsName := importName(s.file, "crypto/tls")
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if slices.Contains(banned, n.Name) {
					t.Errorf("%s: %s: connections are verified, and our own authority signs", s.fset.Position(n.Pos()), n.Name)
				}
			case *ast.CompositeLit:
				if !isConfig(n.Type, tlsName) {
					return true
				}
				found++
				if !sets(n, "MinVersion") {
					t.Errorf("%s: a tls.Config without MinVersion: write it", s.fset.Position(n.Pos()))
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && isConfig(n.Args[0], tlsName) {
					t.Errorf("%s: a tls.Config without MinVersion: write it", s.fset.Position(n.Pos()))
				}
			case *ast.ValueSpec:
				if isConfig(n.Type, tlsName) {
					t.Errorf("%s: a tls.Config without MinVersion: write it", s.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("found no tls.Config: the test looks in the wrong place")
	}
}

// isConfig reports whether a type is tls.Config, by the name of its import here.
func isConfig(of ast.Expr, tlsName string) bool {
	sel, ok := of.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Config" {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == tlsName
}

// sets reports whether a literal names a field.
func sets(lit *ast.CompositeLit, field string) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		id, ok := pair.Key.(*ast.Ident)
		return ok && id.Name == field
	})
}

// A folder whose path has a bracket or a star is one folder, and for filepath.Glob a pattern
// that matches nothing: a home there would not find its own processes.
func TestNoCodeTakesAFolderForAPattern(t *testing.T) {
	for _, s := range load(t) {
		if s.test || slices.Contains(doubles, s.dir) || s.dir == "internal/runner/netns" { // which looks into /proc/self/fd
			continue
		}
		name := importName(s.file, "path/filepath")
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Glob" {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
					t.Errorf("%s: filepath.Glob: take system.Files, or fs.Glob below the folder", s.fset.Position(sel.Pos()))
				}
			}
			return true
		})
	}
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for _, s := range load(t) {
		if s.test {
			continue
		}
		if s.lines > 600 {
			t.Errorf("%s/%s has %d lines: no file is over 600", s.dir, s.name, s.lines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > 80 {
				t.Errorf("%s/%s: %s has %d lines: no function is over 80", s.dir, s.name, f.Name.Name, n)
			}
		}
	}
}

func TestNoHiddenStart(t *testing.T) {
	for _, s := range load(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s/%s: init() runs before anybody asked: build values in New", s.dir, s.name)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for dir, files := range byPackage(load(t), false) {
		var doc string
		for _, s := range files {
			if s.file.Doc != nil {
				doc += s.file.Doc.Text()
			}
		}
		if len(doc) < 80 {
			t.Errorf("package %s has no package comment that says what it does, what it refuses and where to start reading", dir)
		}
	}
}

func TestPackageNamesAreOurs(t *testing.T) {
	taken := []string{"crypto", "errors", "log", "http", "exec", "net", "os", "io", "sync", "time", "util", "common", "helpers", "manager", "types"}
	for dir, files := range byPackage(load(t), false) {
		if name := files[0].file.Name.Name; slices.Contains(taken, name) {
			t.Errorf("package %s in %s: the name is the standard library's or says nothing", name, dir)
		}
	}
}

// A package comment says where to start reading; what it names there is declared there.
func TestPackageCommentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\[([A-Z]\w*(?:\.\w+)?)\]`)
	found := 0
	for dir, files := range byPackage(load(t), false) {
		known := map[string]bool{}
		for _, s := range files {
			declared(s.file, known)
		}
		for _, s := range files {
			for _, m := range link.FindAllStringSubmatch(s.file.Doc.Text(), -1) {
				if found++; !known[m[1]] {
					t.Errorf("%s/%s: the package comment names [%s], which is not declared there", dir, s.name, m[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("found no link in a package comment: the test looks in the wrong place")
	}
}

// declared adds the names of a file, with those of methods and members behind their type's.
func declared(f *ast.File, names map[string]bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			names[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names[name.Name] = true
					}
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
					for _, member := range members(spec.Type) {
						for _, name := range member.Names {
							names[spec.Name.Name+"."+name.Name] = true
						}
					}
				}
			}
		}
	}
}

// receiver is the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// members are the fields of a struct or the methods of an interface.
func members(of ast.Expr) []*ast.Field {
	switch of := of.(type) {
	case *ast.StructType:
		return of.Fields.List
	case *ast.InterfaceType:
		return of.Methods.List
	}
	return nil
}
