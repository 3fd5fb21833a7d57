package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

const (
	caFile     = "ca.pem"
	bundleFile = "bundle.pem"
	keyFile    = "root.key"

	sealedType = "KIMBAP SEALED CA KEY"
	keyAAD     = "kimbap/certs/root.key/1"

	// trustedUntil is the PEM header that says how long clients are told to trust
	// the root before this one.
	trustedUntil = "Trusted-Until"
)

// roots are the root of a folder and, after a rotation, the one before it.
type roots struct {
	cert     *x509.Certificate
	previous *x509.Certificate // nil when there was none
	until    time.Time         // to this moment clients are told to trust previous
}

// overlap reports whether previous is still to be trusted.
func (r roots) overlap(now time.Time) bool { return r.previous != nil && now.Before(r.until) }

// pem is what clients are to trust now, the root first.
func (r roots) pem(now time.Time) []byte {
	out := encodeCertificate(r.cert.Raw)
	if r.overlap(now) {
		out = append(out, encodeCertificate(r.previous.Raw)...)
	}
	return out
}

// rootFiles keeps the root in a folder. root.key is the only file that decides:
// it holds the certificate and the sealed key together, and the certificate of
// the root before, and appears whole or not at all, so that processes which
// start at once cannot mix two roots. ca.pem is a copy of the certificates for
// clients.
type rootFiles struct {
	dir    string
	sealer Sealer
}

func (f rootFiles) path(name string) string { return filepath.Join(f.dir, name) }

// loadOrCreate returns the root of the folder, making it only where there is
// no trace of one.
func (f rootFiles) loadOrCreate(now time.Time) (roots, error) {
	have, err := f.load(now)
	if !errors.Is(err, fs.ErrNotExist) {
		return have, err
	}
	if _, err := os.Lstat(f.path(caFile)); err == nil {
		return f.keyOfKnownRoot(now)
	}
	if err := f.create(now); err != nil {
		return roots{}, err
	}
	return f.load(now) // also when another process was faster: its root is ours
}

// keyOfKnownRoot is for a ca.pem that was there when root.key was not: either
// another process has just finished both, or the key is lost.
func (f rootFiles) keyOfKnownRoot(now time.Time) (roots, error) {
	have, err := f.load(now)
	if errors.Is(err, fs.ErrNotExist) {
		return have, &FileError{
			File: f.path(keyFile), Msg: "the key of the certificate authority is missing, but clients may trust its " + caFile,
			Fix: restore + "kimbap ca rotate",
		}
	}
	return have, err
}

const restore = "restore the file from a backup, or start a new authority that clients must trust anew: "

// fix leaves the rest of the folder where it is: what is installed in trust stores is remembered there.
func (f rootFiles) fix() string {
	return fmt.Sprintf(restore+"mv %[1]s %[1]s.old, then kimbap ca rotate", f.path(keyFile))
}

// create gives a finished file its name, which unlike a rename never
// replaces the root that another process made in the meantime.
func (f rootFiles) create(now time.Time) error {
	tmp, _, err := f.write(now, roots{})
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := system.Entitle(tmp, f.path(keyFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return &FileError{File: f.path(keyFile), Msg: "the key of the certificate authority cannot be put into place", Err: err}
	}
	return system.SyncFolder(f.dir)
}

// write makes a root and writes it beside root.key, with the one before it if
// there is one in old. It returns the path and what is in it.
func (f rootFiles) write(now time.Time, old roots) (tmp string, made roots, err error) {
	root, err := newRoot(now, rootLife)
	if err != nil {
		return "", made, err
	}
	sealed, err := sealKey(f.sealer, root.key)
	if err != nil {
		return "", made, &FileError{File: f.path(keyFile), Msg: "the key of the certificate authority cannot be sealed", Err: err}
	}
	text := append(encodeCertificate(root.cert.Raw), pem.EncodeToMemory(&pem.Block{Type: sealedType, Bytes: sealed})...)
	if old.previous != nil {
		text = append(text, pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: old.previous.Raw,
			Headers: map[string]string{trustedUntil: old.until.UTC().Format(time.RFC3339)},
		})...)
	}
	if tmp, err = system.WriteBeside(f.dir, newKey, text, 0o600); err != nil {
		err = &FileError{File: f.path(keyFile), Msg: "the key of the certificate authority cannot be written", Err: err}
	}
	return tmp, roots{root.cert, old.previous, old.until}, err
}

// load reads and checks the root and gives clients their copy when it is
// missing or old. Only a missing root.key is fs.ErrNotExist.
func (f rootFiles) load(now time.Time) (roots, error) {
	have, err := f.valid(now)
	if err != nil {
		return have, err
	}
	if _, err := f.unseal(have.cert); err != nil {
		return have, err
	}
	return have, f.publish(have, now)
}

// shown is load by who cannot open the key.
func (f rootFiles) shown(now time.Time) (roots, error) {
	have, err := f.valid(now)
	if err != nil {
		return have, err
	}
	return have, f.publish(have, now)
}

// valid reads the root, and refuses one that clients would refuse.
func (f rootFiles) valid(now time.Time) (roots, error) {
	have, _, err := f.read()
	if err != nil {
		return have, err
	}
	return have, f.checkValidity(have.cert, now)
}

// read returns the parts of root.key.
func (f rootFiles) read() (have roots, sealed []byte, err error) {
	file := f.path(keyFile)
	text, err := system.ReadRegular(file, maxOwn)
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil, err
	}
	if err != nil {
		return have, nil, &FileError{File: file, Msg: "the key of the certificate authority cannot be read", Fix: unfit(err, f.fix()), Err: err}
	}
	if err := checkPrivate(file); err != nil {
		return have, nil, err
	}
	have, sealed, err = parseRoots(text)
	if err != nil {
		return have, nil, &FileError{File: file, Msg: "the key of the certificate authority is damaged", Fix: f.fix(), Err: err}
	}
	return have, sealed, nil
}

// parseRoots takes the text of root.key apart: certificate, sealed key, and the
// certificate before it if there was one.
func parseRoots(text []byte) (have roots, sealed []byte, err error) {
	var blocks []*pem.Block
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		blocks, text = append(blocks, block), rest
	}
	if len(blocks) < 2 || len(blocks) > 3 || blocks[1].Type != sealedType || len(bytes.TrimSpace(text)) > 0 {
		return have, nil, errors.New("it is not a certificate and a sealed key")
	}
	if have.cert, err = parseRoot(blocks[0]); err != nil || len(blocks) == 2 {
		return have, blocks[1].Bytes, err
	}
	if have.previous, err = parseRoot(blocks[2]); err != nil {
		return have, nil, err
	}
	have.until, err = time.Parse(time.RFC3339, blocks[2].Headers[trustedUntil])
	return have, blocks[1].Bytes, err
}

func parseRoot(block *pem.Block) (*x509.Certificate, error) {
	if block.Type != "CERTIFICATE" {
		return nil, errors.New("a certificate is missing")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err == nil && (!IsOurs(cert) || !cert.IsCA) {
		err = errors.New("a certificate in it is no root of kimbap")
	}
	return cert, err
}

// unseal opens the key anew and refuses one that is not cert's.
func (f rootFiles) unseal(cert *x509.Certificate) (*ecdsa.PrivateKey, error) {
	file := f.path(keyFile)
	onDisk, sealed, err := f.read()
	if err != nil {
		return nil, err
	}
	key, err := openKey(f.sealer, sealed)
	if err != nil {
		return nil, &FileError{
			File: file, Msg: "the key of the certificate authority cannot be opened: it was sealed with another master key, or changed since",
			Fix: f.fix(), Err: err,
		}
	}
	if !key.PublicKey.Equal(cert.PublicKey) || !onDisk.cert.Equal(cert) {
		return nil, &FileError{File: file, Msg: "the key does not match the certificate in " + f.path(caFile), Fix: f.fix()}
	}
	return key, nil
}

// publish writes ca.pem when it is missing or does not say what root.key says,
// and refuses one that shows a root which root.key does not know.
func (f rootFiles) publish(have roots, now time.Time) error {
	file, want := f.path(caFile), have.pem(now)
	text, err := system.ReadRegular(file, maxOwn)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replaceFile(file, want)
	case err == nil && bytes.Equal(text, want):
		return nil
	case err != nil:
		return &FileError{File: file, Msg: "the certificate of the authority cannot be read", Fix: unfit(err, moveAway), Err: err}
	}
	block, _ := pem.Decode(text) // of two the first is the younger
	if block == nil || block.Type != "CERTIFICATE" {
		return &FileError{File: file, Msg: "this is no PEM certificate", Fix: "remove it: it is written again from " + f.path(keyFile)}
	}
	if !bytes.Equal(block.Bytes, have.cert.Raw) && (have.previous == nil || !bytes.Equal(block.Bytes, have.previous.Raw)) {
		return &FileError{
			File: file, Msg: "the certificate does not match the key in " + f.path(keyFile),
			Fix: "if clients trust this certificate, restore its " + keyFile + "; else remove it: it is written again",
		}
	}
	return replaceFile(file, want)
}

// checkValidity refuses a root outside its time instead of replacing it: who
// trusts it must hear of a new one.
func (f rootFiles) checkValidity(cert *x509.Certificate, now time.Time) error {
	file := f.path(caFile)
	if now.Before(cert.NotBefore) {
		return &FileError{
			File: file, Msg: "the certificate of the authority is not valid before " + cert.NotBefore.Format(time.RFC3339),
			Fix: "set the clock of this machine; where that is right, it was ahead when this was made: make a new one, which clients must trust anew: kimbap ca rotate",
		}
	}
	if now.After(cert.NotAfter) {
		return &FileError{
			File: file, Msg: "the certificate of the authority expired on " + cert.NotAfter.Format(time.DateOnly) + ", and it is " + now.Format(time.DateOnly) + " here",
			Fix: "if that is not today, set the clock of this machine; else make a new one, which clients must trust anew: kimbap ca rotate",
		}
	}
	return nil
}
