package rest_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const rivals = `
name: rivals
version: 1.0.0
base_url: http://HOST
auth: {type: PLACE, PLACE: {NAME: key}, credential_ref: rivals.key}
actions:
  form: {method: POST, path: /form, args: [{name: input, type: object}], request: {body: "{input}", body_type: form}}
  parts: {method: POST, path: /parts, args: [{name: input, type: object}], request: {body: "{input}", body_type: multipart}}
  text: {method: POST, path: /text, args: [{name: input}], request: {headers: {Content-Type: application/x-www-form-urlencoded}, body: "{input}", body_type: raw}}
  json: {method: POST, path: /json, args: [{name: input, type: object}], request: {body: "{input}"}}
`

// An argument that is the whole body brings no key of the caller's beside the stored one:
// some servers would take that.
func TestNoArgumentStandsBesideTheCredential(t *testing.T) {
	for _, place := range []string{"body", "query"} {
		r := newRig(t, servicestest.Options{Cleartext: true})
		field := map[string]string{"body": "field", "query": "name"}[place]
		text := strings.NewReplacer("HOST", r.Authority, "PLACE", place, "NAME", field).Replace(rivals)
		service, err := services.Parse("rivals.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		set, err := services.NewSet([]*services.Service{service})
		if err != nil {
			t.Fatal(err)
		}
		do := func(ref runtime.Ref, args runtime.Args) error {
			found, err := set.Resolve(&runtime.Request{Action: ref, Args: args})
			if err != nil {
				return err
			}
			_, err = r.backend.Execute(t.Context(), &runtime.Call{
				Request: &runtime.Request{Surface: runtime.SurfaceCall, Action: ref, Args: args, Caller: runtime.Caller{Peer: runtime.Peer{Owner: true}}},
				Action:  found.Action, Args: found.Args, Built: found.Built,
				Credential: runtime.Credential{Name: "rivals.key", Version: 1, Value: runtime.NewSecret(placedCanary), Authorities: []string{r.Authority}},
			}, &runtimetest.Responder{})
			return err
		}
		for _, name := range []string{"key", "Key", "key[]", " key", "key[x]", "kéy", "monkey"} {
			for _, ref := range []runtime.Ref{"rivals.form", "rivals.parts", "rivals.text", "rivals.json"} {
				in := runtime.Args{"input": map[string]any{name: "mine", "other": "x"}}
				if ref == "rivals.text" {
					in["input"] = "other=x&" + strings.ReplaceAll(name, " ", "+") + "=mine"
				}
				before := len(r.Requests())
				err := do(ref, in)
				harmless := name == "kéy" || name == "monkey"
				if harmless && err != nil {
					t.Errorf("%s with %q beside the key in the %s: %v", ref, name, place, err)
				}
				if harmless || ref == "rivals.json" && place == "query" || ref == "rivals.json" && (name == "key[]" || name == " key" || name == "key[x]") {
					continue // JSON has its names as they are
				}
				if sent := r.Requests()[before:]; len(sent) > 0 && strings.Contains(string(sent[0].Body), "mine") {
					t.Errorf("%s has %q beside the key in the %s: %s", ref, name, place, sent[0].Body)
				}
				if err != nil && runtime.CodeOf(err) != runtime.CodeInvalidInput {
					t.Errorf("%s with %q: %v", ref, name, err)
				}
			}
		}
	}
}
