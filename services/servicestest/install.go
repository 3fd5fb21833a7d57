package servicestest

import "github.com/kimbap-run/kimbap/services"

// Install is [services.Prepare] and [services.Ready.Write].
func Install(dir, file string, data []byte, vars map[string]string) (*services.Service, error) {
	r, err := services.Prepare(dir, file, data, vars)
	if err != nil {
		return nil, err
	}
	return r.Service, r.Write()
}
