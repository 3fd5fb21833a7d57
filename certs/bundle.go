package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kimbap-run/kimbap/internal/system"
)

// systemRoots are the files in which systems keep their roots, the usual first.
func systemRoots() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo, Alpine
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL, Fedora
		"/etc/pki/tls/certs/ca-bundle.crt",                  // older Fedora, RHEL
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/ssl/cert.pem",                                 // macOS, OpenBSD, Alpine
		"/usr/local/share/certs/ca-root-nss.crt",            // FreeBSD
	}
}

// Bundle returns the roots of the system followed by root, in PEM. With
// extraRootsFile (a user's SSL_CERT_FILE) the certificates of that file take
// the place of the system's. No certificate appears twice, and roots of other
// kimbap authorities are left out: a shell inside `kimbap run` must not pass
// that run's root on.
//
// A file that is named but cannot be read or holds no certificate is a
// [*FileError]. A system without a file of roots (Windows) gives root alone.
func Bundle(extraRootsFile string, root []byte) ([]byte, error) {
	if block, _ := pem.Decode(root); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("bundle: the root is not a PEM certificate")
	}
	source, err := rootsText(extraRootsFile)
	if err != nil {
		return nil, err
	}
	out, err := foreignRoots(source)
	if err == nil && len(out) == 0 && extraRootsFile != "" {
		err = errors.New("no certificate in it")
	}
	if err != nil {
		return nil, &FileError{File: extraRootsFile, Msg: "the file of roots cannot be used", Fix: "correct or unset SSL_CERT_FILE", Err: err}
	}
	return append(out, root...), nil
}

// maxRoots is how much is read of one file of roots, in bytes: many times what a system has.
const maxRoots = 8 << 20

func rootsText(file string) ([]byte, error) {
	if file != "" {
		text, err := system.ReadRegular(file, maxRoots)
		if err != nil {
			return nil, &FileError{File: file, Msg: "the file of roots cannot be read", Fix: "correct or unset SSL_CERT_FILE", Err: err}
		}
		return text, nil
	}
	for _, name := range systemRoots() {
		text, err := system.ReadRegular(name, maxRoots)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
			continue
		}
		if err != nil {
			return nil, &FileError{File: name, Msg: "the system's roots cannot be read", Err: err}
		}
		return text, nil
	}
	return nil, nil
}

// foreignRoots returns the certificates of a PEM text that are not ours, each once.
func foreignRoots(text []byte) ([]byte, error) {
	mark, err := asn1.Marshal(markerOID())
	if err != nil {
		return nil, err
	}
	seen := map[[sha256.Size]byte]bool{}
	var out bytes.Buffer
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return out.Bytes(), nil
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		sum := sha256.Sum256(block.Bytes)
		if seen[sum] || isOurs(block.Bytes, mark) {
			continue
		}
		seen[sum] = true
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
}

// isOurs reports whether a certificate is one of a kimbap authority, whose marker in DER is
// mark. What cannot be parsed is not: its clients may be able to read it. DER writes an
// identifier in one way only (X.690, 8.19), so the hundred and more roots of a system, which
// have ours nowhere, need no parsing: that was most of the time of making a bundle.
func isOurs(der, mark []byte) bool {
	if !bytes.Contains(der, mark) {
		return false
	}
	cert, err := x509.ParseCertificate(der)
	return err == nil && IsOurs(cert)
}

// Parse returns the certificates of a PEM text, without those that Go cannot parse.
func Parse(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, cert)
		}
	}
	return out
}

// sourcePrefix begins the first line of bundle.pem, a comment to every reader
// of PEM. It remembers whose roots these are.
const sourcePrefix = "# kimbap's own root and those of "

// RefreshBundle writes bundle.pem again when it is not what [Bundle] gives now:
// after an update of the system's roots, or with another file of the user's
// own. extraRootsFile is the user's SSL_CERT_FILE or "". When it is bundle.pem
// itself, as in a shell that ran `kimbap env`, the file that the bundle was made
// from is read again, and the system's roots stand in while that cannot be used.
// An authority in memory has no file and does nothing.
func (a *Authority) RefreshBundle(extraRootsFile string) error {
	if a.dir == "" {
		return nil
	}
	if a.standing.Load() == nil {
		return errNotOpen
	}
	files := a.files()
	unlock, err := files.lock(lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	have, _, err := files.read() // not the root of this process: it may have been replaced
	if err != nil {
		return err
	}
	return a.writeBundle(have, extraRootsFile)
}

// writeBundle is RefreshBundle for the roots of a locked folder.
func (a *Authority) writeBundle(now roots, extraRootsFile string) error {
	want, same, err := a.bundle().With(extraRootsFile, now.pem(a.clock()))
	if err != nil || same {
		return err
	}
	return replaceFile(a.BundleFile(), want)
}

// bundle is where bundle.pem is, and ca.pem beside it.
func (a *Authority) bundle() BundleFiles {
	return BundleFiles{Bundle: a.BundleFile(), CA: a.CAFile()}
}

// BundleFiles are the two files that a shell's variables lead to, wherever they are.
type BundleFiles struct {
	Bundle string // the roots that its programs have without us, and ours
	CA     string // ours alone
}

// With returns what the bundle shall hold for a user whose SSL_CERT_FILE is extraRootsFile,
// or "": our root, PEM, behind the roots that are meant, as [Authority.RefreshBundle] says;
// and whether it holds just that. It writes nothing.
func (b BundleFiles) With(extraRootsFile string, root []byte) (want []byte, same bool, err error) {
	have, err := system.ReadRegular(b.Bundle, maxRoots+maxOwn)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, &FileError{File: b.Bundle, Msg: "the bundle of roots cannot be read", Fix: unfit(err, moveAway), Err: err}
	}
	source, remembered, err := b.sourceOf(extraRootsFile, have)
	if err != nil {
		return nil, false, err
	}
	roots, err := Bundle(source, root)
	if err != nil && remembered && source != "" {
		roots, err = Bundle("", root) // its name stays: the file may come back
	}
	if err != nil {
		return nil, false, err
	}
	want = MadeFrom(source, roots)
	return want, bytes.Equal(have, want), nil
}

// sourceOf returns the file whose roots are meant by one that a user names. Of a bundle of
// ours it is the one that this was made from: that of a run is soon gone, and its path then
// anybody's.
func (b BundleFiles) sourceOf(named string, have []byte) (source string, remembered bool, err error) {
	for range 3 { // a run in a shell that asked kimbap env
		switch {
		case named == "" || sameFile(named, b.CA):
			return "", remembered, nil
		case named == b.Bundle || sameFile(named, b.Bundle):
			return rememberedSource(have), true, nil
		}
		if source, err = filepath.Abs(named); err != nil { // the next to read it may be in another folder
			return "", false, &FileError{File: named, Msg: "the file of roots cannot be found", Fix: "correct or unset SSL_CERT_FILE", Err: err}
		}
		first := firstLine(source)
		if !bytes.HasPrefix(first, []byte(sourcePrefix)) {
			return source, remembered, nil
		}
		named, remembered = rememberedSource(first), true
	}
	return "", true, nil
}

// firstLine reads the beginning of a file that may be a bundle of ours; nil: it is none.
func firstLine(file string) []byte {
	f, err := system.OpenRegular(file)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	begin := make([]byte, len(sourcePrefix)+8<<10)
	n, _ := io.ReadFull(f, begin)
	line, _, _ := bytes.Cut(begin[:n], []byte("\n"))
	return line
}

// MadeFrom is a bundle that says, in a comment, which file its roots are of; "": the
// system's.
func MadeFrom(source string, bundle []byte) []byte {
	return slices.Concat([]byte(sourcePrefix+strconv.Quote(source)+"\n"), bundle)
}

// rememberedSource returns the file that a bundle was made from; "", the
// system's roots, when it does not say, or says a name that means another file
// in every folder.
func rememberedSource(bundle []byte) string {
	first, _, _ := bytes.Cut(bundle, []byte("\n"))
	quoted, ok := bytes.CutPrefix(first, []byte(sourcePrefix))
	if !ok {
		return ""
	}
	file, err := strconv.Unquote(string(quoted))
	if err != nil || !filepath.IsAbs(file) {
		return ""
	}
	return file
}

func sameFile(a, b string) bool {
	if a == "" {
		return false
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
