package runtime_test

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// wrangler shows the list of errors of Cloudflare's API and nothing else, sentry-cli a body
// that calls itself JSON by its first name, and so do the libraries of Discord; none says so in
// Accept.
func TestARefusalIsReadByVendorsCommandLines(t *testing.T) {
	for _, c := range []struct {
		agent, kind, listed string
	}{
		{"wrangler/4.86.0", "application/json", "kimbap: no (ask)"},
		{"sentry-cli/3.8.0", "application/json", ""},
		{"DiscordBot (https://discord.js.org, 2.6.3) Node.js/24.18.0", "application/json", ""},
		{"DiscordBot (https://github.com/Rapptz/discord.py 2.6.4) Python/3.11 aiohttp/3.8.4", "application/json", ""},
		{"not-wrangler/1", runtime.ProblemType, ""},
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeForbidden, Msg: "no", Hint: "ask"},
			runtime.AskerOf(http.Header{"User-Agent": {c.agent}, "Accept": {"*/*"}}))
		var p struct {
			Detail  string
			Message string
			Errors  []struct{ Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		listed := ""
		for _, e := range p.Errors {
			listed += e.Message
		}
		if kind := w.Header().Get("Content-Type"); kind != c.kind || listed != c.listed || p.Detail != "no" || p.Message != "kimbap: no (ask)" {
			t.Errorf("%s: as %s: %s", c.agent, kind, w.Body)
		}
	}
}

// The Vercel AI SDK shows the message of an error that has the form of its vendor's, with
// the types and the literals of that, and says "Forbidden" of any other.
func TestARefusalHasTheFormOfTheVendorsErrors(t *testing.T) {
	anthropic, google := http.Header{"Anthropic-Version": {"2023-06-01"}}, http.Header{"X-Goog-Api-Key": {"k"}}
	for _, c := range []struct {
		header      http.Header
		code        runtime.Code
		kind        string
		inner       string // error.type or error.status
		number      bool   // error.code is one
		description string
	}{
		{anthropic, runtime.CodeForbidden, "error", "permission_error", false, "Anthropic's client is denied"},
		{anthropic, runtime.CodeApprovalPending, "error", "permission_error", false, "Anthropic's client waits for a person"},
		{anthropic, runtime.CodeRateLimited, "error", "rate_limit_error", false, "Anthropic's client is too fast"},
		{anthropic, runtime.CodeAmbiguousTarget, "error", "invalid_request_error", false, "Anthropic's client is not understood"},
		{anthropic, runtime.CodeUnauthenticated, "error", "authentication_error", false, "Anthropic's client is nobody"},
		{anthropic, runtime.CodeUpstream, "error", "api_error", false, "Anthropic cannot be reached"},
		{google, runtime.CodeForbidden, "", "PERMISSION_DENIED", true, "Google's client is denied"},
		{google, runtime.CodeRateLimited, "", "RESOURCE_EXHAUSTED", true, "Google's client is too fast"},
		{google, runtime.CodeInvalidInput, "", "INVALID_ARGUMENT", true, "Google's client is not understood"},
		{google, runtime.CodeUnauthenticated, "", "UNAUTHENTICATED", true, "Google's client is nobody"},
		{google, runtime.CodeTimeout, "", "DEADLINE_EXCEEDED", true, "Google is slow"},
		{google, runtime.CodeInternal, "", "INTERNAL", true, "kimbap has a fault"},
		{google, runtime.CodeVaultLocked, "", "UNAVAILABLE", true, "kimbap is locked"},
		{http.Header{"X-Goog-Api-Client": {"gl-node/24"}}, runtime.CodeForbidden, "", "PERMISSION_DENIED", true, "a client of Google's other APIs is denied"},
		{http.Header{"Authorization": {"Bearer k"}}, runtime.CodeForbidden, "", "", false, "any other is denied"},
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: c.code, Msg: "no", Hint: "ask"}, runtime.AskerOf(c.header))
		var p struct {
			Type   string
			Status int
			Code   runtime.Code
			Error  struct {
				Type, Status, Message string
				Code                  any
			}
		}
		if kind := w.Header().Get("Content-Type"); (kind == "application/json") != (c.inner != "") {
			t.Errorf("%s: as %s", c.description, kind)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		number, isNumber := p.Error.Code.(float64)
		switch {
		case p.Code != c.code, p.Status != w.Code, p.Error.Message != "kimbap: no (ask)", p.Error.Type+p.Error.Status != c.inner,
			c.kind != "" && p.Type != c.kind, c.kind == "" && !strings.HasPrefix(p.Type, "https://kimbap.run/errors#"),
			isNumber != c.number, isNumber && int(number) != w.Code:
			t.Errorf("%s: %s", c.description, w.Body)
		}
	}
}

// Clients of Telegram name themselves nowhere, and say "undefined", or that a result is missing,
// of what does not have the error of its API.
func TestARefusalIsReadByBotsOfTelegram(t *testing.T) {
	for action, want := range map[runtime.Ref]string{
		"telegram.delete-message": `,"ok":false,"error_code":403,"description":"kimbap: no (ask)"}`,
		"telegrams.send":          `,"message":"kimbap: no (ask)"}}`,
		"":                        `,"message":"kimbap: no (ask)"}}`,
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeForbidden, Action: action, Msg: "no", Hint: "ask"}, runtime.Asker{})
		if !strings.HasSuffix(w.Body.String(), want+"\n") || !strings.Contains(w.Body.String(), `"code":"forbidden"`) {
			t.Errorf("%q: %s", action, w.Body)
		}
	}
}

// Notion's SDKs show the message of an error whose code is one of their list, and of any other the
// status alone. Others who call Notion read the code as everywhere.
func TestARefusalIsReadBySDKsOfNotion(t *testing.T) {
	const js, py = "notionhq-client/5.26.0", "ramnes/notion-sdk-py@2.5.0"
	for _, c := range []struct {
		agent string
		code  runtime.Code
		want  string
	}{
		{js, runtime.CodeForbidden, "restricted_resource"},
		{py, runtime.CodeForbidden, "restricted_resource"},
		{js, runtime.CodeApprovalPending, "restricted_resource"},
		{js, runtime.CodeUnauthenticated, "unauthorized"},
		{js, runtime.CodeRateLimited, "rate_limited"},
		{js, runtime.CodeInvalidInput, "validation_error"},
		{js, runtime.CodeTimeout, "gateway_timeout"},
		{js, runtime.CodeVaultLocked, "service_unavailable"},
		{js, runtime.CodeInternal, "internal_server_error"},
		{"curl/8.14", runtime.CodeForbidden, "forbidden"},
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: c.code, Msg: "no", Hint: "ask"},
			runtime.AskerOf(http.Header{"User-Agent": {c.agent}, "Notion-Version": {"2025-09-03"}}))
		var p struct {
			Code, Message string
			Error         struct{ Code runtime.Code }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if p.Code != c.want || p.Error.Code != c.code || p.Message != "kimbap: no (ask)" || !strings.HasPrefix(w.Header().Get("Kimbap-Error"), string(c.code)) {
			t.Errorf("%s, %s: %s", c.agent, c.code, w.Body)
		}
	}
}

// Clients of S3 show the Code and Message of its XML, and of any other answer the status:
// minio-go says "Access Denied", as if the store had refused. Those of other APIs of AWS that
// speak XML say that what is no XML cannot be parsed.
func TestARefusalIsReadByClientsOfAWS(t *testing.T) {
	const (
		message = "<Code>forbidden</Code><Message>kimbap: no &lt;b&gt; &amp; no (ask)</Message>"
		form    = "application/x-www-form-urlencoded; charset=utf-8"
	)
	for _, c := range []struct{ scope, content, want string }{
		{"AWS4-HMAC-SHA256 Credential=AKID/20261129/eu-west-1/s3/aws4_request", "", "<Error>" + message + "</Error>"},
		{"AWS4-ECDSA-P256-SHA256 Credential=AKID/20261129/s3/aws4_request", "", "<Error>" + message + "</Error>"},
		{"AWS4-HMAC-SHA256 Credential=AKID/20261129/eu-west-1/sts/aws4_request", form, "<ErrorResponse><Error>" + message + "</Error></ErrorResponse>"},
		{"AWS4-HMAC-SHA256 Credential=AKID/20261129/us-east-1/route53/aws4_request", "", "<ErrorResponse><Error>" + message + "</Error></ErrorResponse>"},
		{"AWS4-HMAC-SHA256 Credential=AKID/20261129/eu-west-1/ec2/aws4_request", form, "<Response><Errors><Error>" + message + "</Error></Errors></Response>"},
		{"AWS4-HMAC-SHA256 Credential=AKID/20261129/eu-west-1/dynamodb/aws4_request", "application/x-amz-json-1.0", ""},
		{"AWS4-HMAC-SHA256 Credential=AKID/20261129/eu-west-1/lambda/aws4_request", "", ""},
		{"AWS4-HMAC-SHA256", form, ""},
		{"Bearer 20261129/eu-west-1/sts/aws4_request", form, ""},
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeForbidden, Msg: "no <b> & no", Hint: "ask"},
			runtime.AskerOf(http.Header{"Authorization": {c.scope + ", SignedHeaders=host, Signature=00"}, "Content-Type": {c.content}}))
		kind, want := "application/xml", xml.Header+c.want+"\n"
		if c.want == "" {
			kind, want = runtime.ProblemType, w.Body.String()
		}
		if w.Header().Get("Content-Type") != kind || w.Body.String() != want {
			t.Errorf("%s as %s: %s", c.scope, w.Header().Get("Content-Type"), w.Body)
		}
	}
}
