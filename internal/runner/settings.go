package runner

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Some clients read no variable that names a PEM file, only a file of settings
// of their own. These are the names of ours, in the folder [Place.Settings].
// All but the trust store's carry our name, so that a kimbap below another one
// knows what is not the user's.
const (
	wgetrcFile   = "kimbap-wgetrc"
	phpFolder    = "kimbap-php"
	phpFile      = phpFolder + "/kimbap.ini"
	javaArgsFile = "kimbap-java-%s.args" // with the proxy's host and port: several proxies share a home
	TrustFile    = "trust.jks"           // a Java key store, the same for every place
)

// The variables that name them. A value of the user's own is kept in front of
// ours where the variable holds a list.
const (
	wgetrcVar = "SYSTEM_WGETRC"    // stands in for /etc/wgetrc; ~/.wgetrc is still read
	phpVar    = "PHP_INI_SCAN_DIR" // PHP: a list of folders, an empty one is the built-in
	javaVar   = "JDK_JAVA_OPTIONS" // the java launcher, from 9 on
)

// Own picks the user's values of the variables that [Variables] extends.
func Own(get func(name string) string) map[string]string {
	return map[string]string{wgetrcVar: get(wgetrcVar), phpVar: get(phpVar), javaVar: get(javaVar)}
}

// InContainer returns the place as a container sees it that mounts our files.
// What the user has set outside means nothing there.
func InContainer(p Place) Place {
	p.CA, p.Bundle, p.Settings, p.Own, p.Served, p.Socket, p.Token = containerCA, containerBundle, containerSettings, nil, nil, "", ""
	return p
}

// SettingsFiles returns the files that belong into the folder which clients see
// as p.Settings, by their names in it. trust is a Java key store and password
// its password.
func SettingsFiles(p Place, trust []byte, password string) (map[string][]byte, error) {
	host, port := address(p.Proxy)
	if host == "" {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "the proxy is not a URL with a host, and a port up to 65535 if any", Hint: "kimbap env --proxy http://127.0.0.1:7788",
		}
	}
	options := [][2]string{
		{"http.proxyHost", host}, {"http.proxyPort", port},
		{"https.proxyHost", host}, {"https.proxyPort", port},
		{"javax.net.ssl.trustStore", path.Join(p.Settings, TrustFile)},
		{"javax.net.ssl.trustStoreType", "JKS"}, {"javax.net.ssl.trustStorePassword", password},
	}
	if len(p.Served) > 0 { // the JDK adds all of this machine to any list but an empty one
		options = append(options, [2]string{"http.nonProxyHosts", ""})
	}
	if p.Token != "" { // for Gradle and Apache's HttpClient; the JDK's own clients read none of them
		for _, scheme := range []string{"http", "https"} {
			options = append(options, [2]string{scheme + ".proxyUser", proxyUser}, [2]string{scheme + ".proxyPassword", p.Token})
		}
	}
	wgetrc, err := systemWgetrc(p.Own)
	if err != nil {
		return nil, err
	}
	var args strings.Builder
	for _, option := range options {
		args.WriteString(quoteJava("-D"+option[0]+"="+option[1]) + "\n")
	}
	return map[string][]byte{
		wgetrcFile:        []byte(wgetrc + "ca_certificate = " + p.Bundle + "\n"),
		phpFile:           []byte("curl.cainfo = " + quoteINI(p.Bundle) + "\nopenssl.cafile = " + quoteINI(p.Bundle) + "\n"),
		javaArgs(p.Proxy): []byte(args.String()),
		TrustFile:         trust,
	}, nil
}

// settings returns the variables that lead to those files.
func settings(p Place) []Variable {
	return []Variable{
		{wgetrcVar, path.Join(p.Settings, wgetrcFile)},
		{phpVar, phpFolders(p.Own) + path.Join(p.Settings, phpFolder)},
		{javaVar, javaOptions(p.Own[javaVar]) + `"@` + path.Join(p.Settings, javaArgs(p.Proxy)) + `"`},
	}
}

// proxyAddress is the host and port of a proxy's URL. What stands before them
// may be anything: clients do not agree on what a user name may hold.
var proxyAddress = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[a-z]+://)?(?:.*@)?(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d+))?/?$`)
})

// address returns a proxy's host, without brackets, and port; "" when the text
// names none.
func address(proxy string) (host, port string) {
	found := proxyAddress().FindStringSubmatch(proxy)
	if found == nil {
		return "", ""
	}
	if port = found[2]; port == "" {
		port = "80"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", ""
	}
	return strings.Trim(found[1], "[]"), port
}

func javaArgs(proxy string) string {
	host, port := address(proxy)
	return fmt.Sprintf(javaArgsFile, strings.ReplaceAll(host, ":", "-")+"-"+port)
}

// maxWgetrc is how much is read of a file of settings for wget, in bytes.
const maxWgetrc = 1 << 20

// systemWgetrc is what our file stands in for; "" in a container, whose own we
// do not know. What is not there or not for us to read is left out, as wget does, and a
// folder in a usual place of them too.
func systemWgetrc(own map[string]string) (string, error) {
	if own == nil {
		return "", nil
	}
	files := []string{own[wgetrcVar], "/etc/wgetrc", "/usr/local/etc/wgetrc", "/opt/homebrew/etc/wgetrc"}
	for _, file := range files {
		if file == "" || path.Base(file) == wgetrcFile {
			continue
		}
		text, err := system.ReadRegular(file, maxWgetrc)
		if err == nil {
			return strings.TrimRight(string(text), "\n") + "\n", nil
		}
		var unfit system.Unfit
		if errors.As(err, &unfit) && file == own[wgetrcVar] {
			return "", &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%s: the settings of wget cannot be used: %v", file, err),
				Hint: "correct or unset " + wgetrcVar, Err: err,
			}
		}
	}
	return "", nil
}

// phpFolders returns the user's own folders with a separator behind; alone it
// stands for the built-in one.
func phpFolders(own map[string]string) string {
	separator := string(os.PathListSeparator)
	if own == nil { // a container runs Linux, wherever it is
		separator = ":"
	}
	var kept string
	for dir := range strings.SplitSeq(own[phpVar], separator) {
		if path.Base(dir) != phpFolder {
			kept += dir + separator
		}
	}
	if kept == "" { // what was there was ours alone
		return separator
	}
	return kept
}

// ourJavaArgs is the word that [settings] adds. In the variable, unlike in a
// file of arguments, a backslash is one.
var ourJavaArgs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\s*"@[^"]*/kimbap-java-[^"/]*\.args"`) })

func javaOptions(own string) string {
	if own = strings.TrimSpace(ourJavaArgs().ReplaceAllString(own, "")); own != "" {
		own += " "
	}
	return own
}

// quoteJava quotes one word in a file of arguments for the java launcher.
func quoteJava(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// quoteINI quotes a value for PHP, which reads ${…} within double quotes.
func quoteINI(value string) string {
	if !strings.Contains(value, "'") {
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
