package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// sendPacked sends a document in gzip, as Google's clients for Java do with each.
func sendPacked(t *testing.T, k *apptest.Kimbap, document string) apptest.Answer {
	t.Helper()
	client := k.Client(t, "")
	client.Transport = withField{client.Transport, "Content-Encoding", "gzip"}
	return apptest.Send(t, client, write, servicestest.Gzip(document))
}

// withField adds a field to each request.
type withField struct {
	http.RoundTripper
	name, value string
}

func (w withField) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(w.name, w.value)
	return w.RoundTripper.RoundTrip(r)
}

// A document in gzip is judged by what is in it, and sent as it came.
func TestAPackedDocumentIsJudgedByWhatIsInIt(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: noSecretNotes})
	for _, c := range []struct {
		document     string
		status       int
		code, reason string
	}{
		{`{"text":"hello"}`, 200, "", ""},
		{`{"text":"a secret"}`, 403, "forbidden", ""},
		{`{"text":"hello","public":true}`, 403, "forbidden", ""},
		{`{"text":"hello","text":"a secret"}`, 400, "invalid_input", "duplicate_key"},
		{`{"text":`, 400, "invalid_input", "invalid_json"},
		{strings.Repeat(" ", 2<<20) + `{"text":"hello"}`, 413, "invalid_input", "body_too_large"},
	} {
		before := len(k.Up.Requests())
		a := sendPacked(t, k, c.document)
		if a.Status != c.status || string(a.Problem.Code) != c.code || string(a.Problem.Reason) != c.reason {
			t.Errorf("%.40s: %d %+v", c.document, a.Status, a.Problem)
		}
		sent := k.Up.Requests()[before:]
		if (len(sent) == 1) != (c.status == 200) {
			t.Errorf("%.40s: the upstream got %d requests", c.document, len(sent))
		}
		for _, one := range sent {
			if string(one.Body) != servicestest.Gzip(c.document) || one.Header["Content-Encoding"][0] != "gzip" {
				t.Errorf("the upstream got %q with %v", one.Body, one.Header)
			}
		}
	}
	records := k.Await(t, nil, 7)
	if !strings.Contains(records[0].Line, `"args":{"text":`) {
		t.Errorf("the arguments are not in the trail: %s", records[0].Line)
	}
}

// A person sees what is in it, and the yes is for these bytes.
func TestAPackedDocumentIsShownToAPerson(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	const document = `{"text":"one","to":{"who":"everybody"}}`
	asked := sendPacked(t, k, document)
	if asked.Problem.Code != "approval_pending" {
		t.Fatalf("%d %+v", asked.Status, asked.Problem)
	}
	if _, text, err := person.ShowApproval(t.Context(), asked.Problem.Approval, false); err != nil || strings.Contains(text, "NOT FULLY SHOWN") || !strings.Contains(text, "everybody") {
		t.Errorf("%v %s", err, text)
	}
	if _, err := person.Accept(t.Context(), asked.Problem.Approval, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if other := sendPacked(t, k, strings.Replace(document, "everybody", "nobody", 1)); other.Problem.Code != "approval_pending" || other.Problem.Approval == asked.Problem.Approval {
		t.Errorf("another document took the yes: %+v", other.Problem)
	}
	if a := sendPacked(t, k, document); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if got := k.Up.Last(t); string(got.Body) != servicestest.Gzip(document) || len(k.Up.Requests()) != 1 {
		t.Errorf("%q, %d requests", got.Body, len(k.Up.Requests()))
	}
}
