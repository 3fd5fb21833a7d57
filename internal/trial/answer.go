package trial

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
)

// answered gets the answer of a case and looks at what the filter makes of it.
func (r *trial) answered(ctx context.Context, a *runtime.Action, c *Case, built *runtime.Built, tried *Tried) error {
	if r.upstream != nil {
		if a.Risk != runtime.RiskLow && !r.Writes {
			tried.Outcome, tried.Why = "untried", "it is of "+string(a.Risk)+" risk: send it with --writes"
			return nil
		}
		was := c.Result
		if err := r.ask(ctx, c, built); err != nil {
			return err
		}
		c.Result = was
	}
	if c.Status >= 400 {
		return fmt.Errorf("the answer is %d: %.200s", c.Status, bytes.TrimSpace(c.Answer))
	}
	if c.Answer == nil && r.upstream == nil {
		if c.Result != nil {
			tried.Outcome, tried.Why = "untried", "it has a result and no answer: try it with --upstream"
		}
		return nil
	}
	if c.Answer == nil && c.Result != nil && !r.Record {
		return fmt.Errorf("the answer is empty, and the case says %.300s", c.Result)
	}
	result := []byte(c.Answer)
	if a.HTTP.Filter != "" && result != nil {
		var err error
		if result, err = jq.Filter(a.HTTP.Filter, c.Answer); err != nil {
			return fmt.Errorf("the filter does not take the answer: %s", runtime.AsError(err).Msg)
		}
	}
	if c.Result != nil && !r.Record && !sameJSON(c.Result, result) {
		return fmt.Errorf("the result is %.300s, and the case says %.300s", bytes.TrimSpace(result), c.Result)
	}
	if r.Record {
		c.Request, c.Result = built.Method+" "+built.Target, json.RawMessage(bytes.TrimSpace(result))
		if !json.Valid(c.Result) { // none, or several, one a line
			c.Result = nil
		}
		c.Body = recordedBody(a, built)
		r.recorded = append(r.recorded, *c)
	}
	return nil
}

// recordedBody is the body of a request as a case has it: JSON, or a form as its text. It holds
// what the case's own arguments do, and no key. One in parts has another boundary each time, and
// one that is sent as it is may be no text.
func recordedBody(a *runtime.Action, built *runtime.Built) json.RawMessage {
	var text string
	switch kind := a.HTTP.BodyType; {
	case len(built.Body) == 0 || kind != "json" && kind != "form":
		return nil
	case kind == "json" && json.Valid(built.Body) && json.Unmarshal(built.Body, &text) != nil:
		return built.Body
	}
	quoted, _ := json.Marshal(string(built.Body)) // a case has a text for what is no object or list
	return quoted
}

// mostAnswer bounds what is read of an upstream's answer, in bytes.
const mostAnswer = 4 << 20

// ask sends the request of a case to the upstream, without any credential.
func (r *trial) ask(ctx context.Context, c *Case, built *runtime.Built) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	target := r.upstream.Scheme + "://" + r.upstream.Host + strings.TrimSuffix(r.upstream.EscapedPath(), "/") + built.Target
	req, err := http.NewRequestWithContext(ctx, built.Method, target, bytes.NewReader(built.Body))
	if err != nil {
		return err
	}
	req.Header = built.Header.Clone()
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true, TLSClientConfig: r.TLS},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if distrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &distrusted) {
		return untrusted(distrusted)
	}
	if err != nil {
		return fmt.Errorf("the upstream does not answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer+1))
	if err != nil {
		return err
	}
	if len(body) > mostAnswer {
		return fmt.Errorf("the answer is over %d MiB", mostAnswer>>20)
	}
	c.Status, c.Answer = answer.StatusCode, body
	if !json.Valid(body) {
		c.Answer, _ = json.Marshal(string(body))
	}
	if len(body) == 0 {
		c.Answer = nil
	}
	return nil
}

// write keeps what was recorded, and the cases of the file that were not tried or failed:
// somebody wrote them.
func (r *trial) write() error {
	data, err := json.Marshal(CaseFile{slices.Concat(r.kept, r.recorded)})
	if err != nil {
		return err
	}
	text, err := config.YAMLOf(data)
	if err != nil {
		return err
	}
	file, mode := CasesOf(r.File), fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if led, err := filepath.EvalSymlinks(file); err == nil {
		file = led
	}
	return system.Replace(file, filepath.Base(file)+".new-*", text, mode)
}

// untrusted says what is wrong with the certificate of the upstream, and what mends it.
func untrusted(err *tls.CertificateVerificationError) error {
	_, fix := certs.Distrust(err)
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		fix = "add its CA with upstream.ca_file in config.yaml, or give an http address"
	}
	return fmt.Errorf("the certificate of the upstream is not one to trust (%w): %s", err.Err, fix)
}
