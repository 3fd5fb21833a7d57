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
)

const (
	caFile     = "ca.pem"
	bundleFile = "bundle.pem"
	keyFile    = "root.key"

	sealedType = "KIMBAP SEALED CA KEY"
	keyAAD     = "kimbap/certs/root.key/1"
)

// rootFiles keeps the root in a folder. root.key is the only file that decides:
// it holds the certificate and the sealed key together and appears whole or not
// at all, so that processes which start at once cannot mix two roots. ca.pem is
// a copy of the certificate for clients.
type rootFiles struct {
	dir    string
	sealer Sealer
}

func (f rootFiles) path(name string) string { return filepath.Join(f.dir, name) }

// loadOrCreate returns the root of the folder, making it only where there is
// no trace of one.
func (f rootFiles) loadOrCreate(now time.Time) (*x509.Certificate, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, &FileError{File: f.dir, Msg: "the folder of the certificate authority cannot be made", Err: err}
	}
	if err := checkPrivate(f.dir, "700"); err != nil {
		return nil, err
	}
	cert, err := f.load(now)
	if !errors.Is(err, fs.ErrNotExist) {
		return cert, err
	}
	if _, err := os.Lstat(f.path(caFile)); err == nil {
		return f.keyOfKnownRoot(now)
	}
	if err := f.create(now); err != nil {
		return nil, err
	}
	return f.load(now) // also when another process was faster: its root is ours
}

// keyOfKnownRoot is for a ca.pem that was there when root.key was not: either
// another process has just finished both, or the key is lost.
func (f rootFiles) keyOfKnownRoot(now time.Time) (*x509.Certificate, error) {
	cert, err := f.load(now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FileError{
			File: f.path(keyFile), Msg: "the key of the certificate authority is missing, but clients may trust its " + caFile,
			Fix: f.fix(),
		}
	}
	return cert, err
}

func (f rootFiles) fix() string {
	return fmt.Sprintf("restore the file from a backup, or start a new authority that clients must trust anew: mv %[1]s %[1]s.old", f.dir)
}

// create links a finished file into place: unlike a rename, a link never
// replaces the root that another process made in the meantime.
func (f rootFiles) create(now time.Time) error {
	root, err := newRoot(now)
	if err != nil {
		return err
	}
	plain, err := x509.MarshalPKCS8PrivateKey(root.key)
	if err != nil {
		return err
	}
	defer clear(plain)
	sealed, err := f.sealer.Seal(plain, []byte(keyAAD))
	if err != nil {
		return &FileError{File: f.path(keyFile), Msg: "the key of the certificate authority cannot be sealed", Err: err}
	}
	text := append(encodeCertificate(root.cert.Raw), pem.EncodeToMemory(&pem.Block{Type: sealedType, Bytes: sealed})...)
	tmp, err := writeTemp(f.dir, text, 0o600)
	if err != nil {
		return &FileError{File: f.path(keyFile), Msg: "the key of the certificate authority cannot be written", Err: err}
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, f.path(keyFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return &FileError{File: f.path(keyFile), Msg: "the key of the certificate authority cannot be put into place", Err: err}
	}
	return syncDir(f.dir)
}

// load reads and checks the root and gives clients their copy when it is
// missing. Only a missing root.key is fs.ErrNotExist.
func (f rootFiles) load(now time.Time) (*x509.Certificate, error) {
	cert, _, err := f.read()
	if err != nil {
		return nil, err
	}
	if err := f.checkValidity(cert, now); err != nil {
		return nil, err
	}
	if _, err := f.unseal(cert); err != nil {
		return nil, err
	}
	return cert, f.publish(cert)
}

// read returns the two parts of root.key.
func (f rootFiles) read() (cert *x509.Certificate, sealed []byte, err error) {
	file := f.path(keyFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, &FileError{File: file, Msg: "the key of the certificate authority cannot be read", Err: err}
	}
	if err := checkPrivate(file, "600"); err != nil {
		return nil, nil, err
	}
	first, rest := pem.Decode(text)
	second, end := pem.Decode(rest)
	damaged := &FileError{File: file, Msg: "the key of the certificate authority is damaged", Fix: f.fix()}
	if first == nil || second == nil || first.Type != "CERTIFICATE" || second.Type != sealedType || len(bytes.TrimSpace(end)) > 0 {
		return nil, nil, damaged
	}
	cert, err = x509.ParseCertificate(first.Bytes)
	if err != nil || !IsOurs(cert) || !cert.IsCA {
		damaged.Err = err
		return nil, nil, damaged
	}
	return cert, second.Bytes, nil
}

// unseal opens the key anew and refuses one that is not cert's.
func (f rootFiles) unseal(cert *x509.Certificate) (*ecdsa.PrivateKey, error) {
	file := f.path(keyFile)
	onDisk, sealed, err := f.read()
	if err != nil {
		return nil, err
	}
	plain, err := f.sealer.Open(sealed, []byte(keyAAD))
	if err != nil {
		return nil, &FileError{
			File: file, Msg: "the key of the certificate authority cannot be opened: it was sealed with another master key, or changed since",
			Fix: f.fix(), Err: err,
		}
	}
	defer clear(plain)
	mismatch := &FileError{File: file, Msg: "the key does not match the certificate in " + f.path(caFile), Fix: f.fix()}
	parsed, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, mismatch // not the cause: a parser's error may quote what it read
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) || !onDisk.Equal(cert) {
		return nil, mismatch
	}
	return key, nil
}

// publish writes ca.pem when it is missing and refuses one that shows another root.
func (f rootFiles) publish(cert *x509.Certificate) error {
	file := f.path(caFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return replaceFile(file, encodeCertificate(cert.Raw), 0o644)
	}
	if err != nil {
		return &FileError{File: file, Msg: "the certificate of the authority cannot be read", Err: err}
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return &FileError{File: file, Msg: "this is not one PEM certificate", Fix: "remove it: it is written again from " + f.path(keyFile)}
	}
	if !bytes.Equal(block.Bytes, cert.Raw) {
		return &FileError{
			File: file, Msg: "the certificate does not match the key in " + f.path(keyFile),
			Fix: "if clients trust this certificate, restore its " + keyFile + "; else remove it: it is written again",
		}
	}
	return nil
}

// checkValidity refuses a root outside its time instead of replacing it: who
// trusts it must hear of a new one.
func (f rootFiles) checkValidity(cert *x509.Certificate, now time.Time) error {
	file := f.path(caFile)
	if now.Before(cert.NotBefore) {
		return &FileError{
			File: file, Msg: "the certificate of the authority is not valid before " + cert.NotBefore.Format(time.RFC3339),
			Fix: "set the clock of this machine",
		}
	}
	if now.After(cert.NotAfter) {
		return &FileError{
			File: file, Msg: "the certificate of the authority expired on " + cert.NotAfter.Format(time.DateOnly),
			Fix: fmt.Sprintf("start a new authority that clients must trust anew: mv %[1]s %[1]s.old", f.dir),
		}
	}
	return nil
}
