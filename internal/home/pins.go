package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Pin says what an address held when it was installed from.
type Pin struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"` // hex, of the bytes that were fetched
}

// Pins is services.lock: where installed services are from, by name. What an address
// holds is not installed when it has changed since, unless it is asked for. A file that was
// written from the catalogue is kimbap's own until somebody changes it, whatever the
// catalogue says by then.
type Pins struct {
	Version   int               `json:"version"`
	Services  map[string]Pin    `json:"services"`            // those that were fetched
	Catalogue map[string]string `json:"catalogue,omitempty"` // SHA-256, hex, of the files as they were written
	Own       map[string]string `json:"own,omitempty"`       // SHA-256, hex, of the catalogue's file beside which the owner keeps their own
}

// PinFile is the file of fetched services' hashes.
func (f Folder) PinFile() string { return filepath.Join(f.Dir, "services.lock") }

// ReadPins reads them; a home without the file has pinned nothing.
func (f Folder) ReadPins() (*Pins, error) {
	p := &Pins{Version: 1, Services: map[string]Pin{}, Catalogue: map[string]string{}, Own: map[string]string{}}
	data, err := os.ReadFile(f.PinFile())
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	if err == nil && p.Version != 1 {
		err = fmt.Errorf("version %d is not known", p.Version)
	}
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "the hashes of fetched services cannot be read: " + err.Error(),
			Hint: "put " + runtime.Quote(f.PinFile()) + " right, or remove it to pin anew",
		}
	}
	if p.Services == nil {
		p.Services = map[string]Pin{}
	}
	if p.Catalogue == nil {
		p.Catalogue = map[string]string{}
	}
	if p.Own == nil {
		p.Own = map[string]string{}
	}
	return p, nil
}

// Forget drops what is known of a service's file, and reports whether anything was.
func (p *Pins) Forget(name string) bool {
	_, fetched := p.Services[name]
	_, shipped := p.Catalogue[name]
	delete(p.Services, name)
	_, own := p.Own[name]
	delete(p.Catalogue, name)
	delete(p.Own, name)
	return fetched || shipped || own
}

// WritePins replaces the file in one step.
func (f Folder) WritePins(p *Pins) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := Replace(f.PinFile(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("pin the service: %w", err)
	}
	return system.SyncFolder(filepath.Dir(f.PinFile())) // a service is written next, and must not outlive its pin
}

// Check refuses bytes that are not those pinned for their address, or not those
// that the address itself demands (https://…#sha256=HEX).
func (p *Pins) Check(from, demanded, sum string, update bool) error {
	if demanded != "" && !strings.EqualFold(demanded, sum) {
		return Changed("the file is not the one that was asked for: its sha256 is "+sum+", not "+demanded, "check the address and its #sha256=")
	}
	for _, pin := range p.Services {
		if pin.URL == from && pin.SHA256 != sum && !update {
			return Changed("the file has changed since it was installed: its sha256 was "+pin.SHA256+" and is "+sum,
				"read it, then: kimbap service install "+runtime.Quote(from)+" --update")
		}
	}
	return nil
}

// Changed refuses what is not what was looked at when it was installed.
func Changed(msg, hint string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonContentChanged, Msg: msg, Hint: hint}
}
