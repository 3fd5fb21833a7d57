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
auth: {type: PLACE, PLACE: {NAME: key}, credential_ref: keyed.key}
actions:
  form: {method: POST, path: /form, args: [{name: input, type: object}], request: {body: "{input}", body_type: form}}
  parts: {method: POST, path: /parts, args: [{name: input, type: object}], request: {body: "{input}", body_type: multipart}}
  text: {method: POST, path: /text, args: [{name: input}], request: {headers: {Content-Type: application/x-www-form-urlencoded}, body: "{input}", body_type: raw}}
  json: {method: POST, path: /json, args: [{name: input, type: object}], request: {body: "{input}"}}
`

// keyed is a service that is there, and what its resolver makes of a call is sent to it.
type keyed struct {
	*rig
	*services.Service
	set *services.Set
}

func newKeyed(t *testing.T, text string) *keyed {
	t.Helper()
	r := newRig(t, servicestest.Options{Cleartext: true})
	set := servicestest.Set(t, "keyed.yaml", strings.ReplaceAll(text, "HOST", r.Authority))
	return &keyed{r, set.Services()[0], set}
}

func (k *keyed) do(t *testing.T, ref runtime.Ref, args runtime.Args) error {
	found, err := k.set.Resolve(&runtime.Request{Action: ref, Args: args})
	if err != nil {
		return err
	}
	_, err = k.backend.Execute(t.Context(), &runtime.Call{
		Request: &runtime.Request{Surface: runtime.SurfaceCall, Action: ref, Args: args, Caller: runtime.Caller{Peer: runtime.Peer{Owner: true}}},
		Action:  found.Action, Args: found.Args, Built: found.Built,
		Credential: runtime.Credential{Name: "keyed.key", Version: 1, Value: runtime.NewSecret(placedCanary), Authorities: []string{k.Authority}},
	}, &runtimetest.Responder{})
	return err
}

// An argument that is the whole body brings no key of the caller's beside the stored one:
// some servers would take that.
func TestNoArgumentStandsBesideTheCredential(t *testing.T) {
	for _, place := range []string{"body", "query"} {
		field := map[string]string{"body": "field", "query": "name"}[place]
		r := newKeyed(t, strings.NewReplacer("PLACE", place, "NAME", field).Replace(rivals))
		for _, name := range []string{"key", "Key", "key[]", " key", "key[x]", "kéy", "monkey"} {
			for _, ref := range []runtime.Ref{"rivals.form", "rivals.parts", "rivals.text", "rivals.json"} {
				in := runtime.Args{"input": map[string]any{name: "mine", "other": "x"}}
				if ref == "rivals.text" {
					in["input"] = "other=x&" + strings.ReplaceAll(name, " ", "+") + "=mine"
				}
				before := len(r.Requests())
				err := r.do(t, ref, in)
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

// A key in the body finds one wherever there may be one, of the type that the file says; a
// GET has none, of which the file is warned.
func TestAKeyInTheBodyFindsOne(t *testing.T) {
	k := newKeyed(t, `
name: keyed
version: 1.0.0
base_url: http://HOST
auth: {type: body, body: {field: key}, credential_ref: keyed.key}
actions:
  remove: {method: DELETE, path: /it, risk: {level: low}}
  ask: {method: OPTIONS, path: /it}
  ping: {method: POST, path: /it, request: {body_type: form}}
  parts: {method: PUT, path: /it, request: {body_type: multipart}}
  get: {method: GET, path: /it}
  any: {method: [GET, POST], path: /**}
  look: {method: [GET, HEAD], path: /looks/**}
`)
	for ref, want := range map[runtime.Ref]string{
		"keyed.remove": `{"key":"` + placedCanary + `"}`, "keyed.ask": `{"key":"` + placedCanary + `"}`, "keyed.ping": "key=" + placedCanary, "keyed.parts": "form-data; name=\"key\"\r\n\r\n" + placedCanary + "\r\n",
	} {
		if err := k.do(t, ref, nil); err != nil {
			t.Errorf("%s: %v", ref, err)
		} else if got := string(k.Last(t).Body); !strings.Contains(got, want) {
			t.Errorf("%s sends %q, want %q", ref, got, want)
		}
	}
	before := len(k.Requests())
	if err := k.do(t, "keyed.get", nil); runtime.CodeOf(err) != runtime.CodeInvalidInput || len(k.Requests()) != before {
		t.Errorf("a GET is sent without its key: %v", err)
	}
	if len(k.Warnings) != 1 || k.Warnings[0].Line != 5 || !strings.HasSuffix(k.Warnings[0].Msg, "none: get, look") {
		t.Errorf("the file is warned of %v", k.Warnings)
	}
}
