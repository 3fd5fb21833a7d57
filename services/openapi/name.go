package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// longestName is the most bytes a name may have (services).
const longestName = 64

// kebab writes "repos/createDeployKey" as repos-create-deploy-key: words in
// lower case with hyphens between.
func kebab(text string) string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(strings.ReplaceAll(text, "'", ""))
	for i, r := range runes {
		isWord := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !isWord {
			end()
			continue
		}
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1]) ||
			unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			end()
		}
		word = append(word, r)
	}
	end()
	return strings.Join(words, "-")
}

// nameOperations gives every operation of the document a name that is its own.
// Operations whose names would be the same all get an end made of method and
// path, so that none takes over the name of another when the document changes. Those that
// cannot be read leave the others their names.
func nameOperations(list, unread []*operation) map[*operation]string {
	names, taken := map[*operation]string{}, map[string]int{"api-read": 1, "api-write": 1, "api-delete": 1}
	for i, o := range slices.Concat(list, unread) {
		name := kebab(o.id)
		if name == "" {
			name = kebab(strings.ToLower(o.method) + " " + strings.NewReplacer("{", "by ", "}", "").Replace(o.path))
		}
		if name[0] >= '0' && name[0] <= '9' {
			name = "op-" + name
		}
		if len(name) > longestName {
			name = withMark(name, name)
		}
		if i >= len(list) && taken[name] > 0 {
			name = withMark(name, o.String())
		}
		names[o] = name
		taken[name]++
	}
	for _, o := range list {
		if taken[names[o]] > 1 {
			names[o] = withMark(names[o], o.String())
		}
	}
	return names
}

// withMark ends a name, cut between words where it is long, with six hexadecimal
// digits that belong to a text.
func withMark(name, text string) string {
	sum := sha256.Sum256([]byte(text))
	if most := longestName - 7; len(name) > most {
		name = name[:most]
		if i := strings.LastIndexByte(name, '-'); i > most/2 {
			name = name[:i]
		}
	}
	return strings.TrimRight(name, "-") + "-" + hex.EncodeToString(sum[:3])
}

// argName makes an argument's name of a parameter's: what may not stand in one
// becomes an underscore. It is the name itself where that can be.
func argName(name string) string {
	out := []byte(strings.NewReplacer("[]", "", "][", ".", "[", ".", "]", "").Replace(name))
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			out[i] = '_'
		}
	}
	text := strings.Trim(string(out), "-.")
	if text == "" || text[0] >= '0' && text[0] <= '9' {
		text = "_" + text
	}
	if len(text) > longestName {
		text = withMark(text, name)
	}
	return text
}

// serviceName makes a service's name of the host it is at, else of the title.
func serviceName(host, title string) string {
	host, _, _ = strings.Cut(host, ":")
	labels := strings.Split(strings.ToLower(host), ".")
	if n := len(labels); n >= 2 && !digits(labels[n-1]) {
		at := n - 2
		if at > 0 && slices.Contains([]string{"co", "com", "org", "net", "gov", "ac", "edu"}, labels[at]) && len(labels[n-1]) == 2 {
			at--
		}
		if name := kebab(labels[at]); name != "" && name[0] > '9' {
			return name
		}
	}
	var words []string
	for word := range strings.SplitSeq(kebab(title), "-") {
		if !slices.Contains([]string{"", "api", "rest", "the", "http", "spec", "openapi", "swagger", "specification", "web", "v1", "v2", "v3"}, word) {
			words = append(words, word)
		}
	}
	name := strings.Join(words[:min(3, len(words))], "-")
	if name == "" || name[0] <= '9' || name == "net" {
		name = strings.TrimSuffix("api-"+name, "-")
	}
	return strings.Trim(name[:min(len(name), longestName)], "-")
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// semver makes a version of three numbers of whatever a document calls its own.
func semver(text string) string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	out := []string{"1", "0", "0"}
	for i := range min(3, len(parts)) {
		n, err := strconv.ParseUint(parts[i], 10, 32)
		if err != nil {
			return "1.0.0"
		}
		out[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(out, ".")
}

// sentence is the first sentence of a text, on one line, for a description.
func sentence(text string) string {
	const most = 140
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	line = strings.ToValidUTF8(line, "")
	if i := strings.Index(line, ". "); i > 0 {
		line = line[:i]
	}
	line = strings.TrimRight(strings.TrimSpace(line), ".:")
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most])
		if i := strings.LastIndexByte(line, ' '); i > most/2 {
			line = line[:i]
		}
		line += "…"
	}
	return line
}
