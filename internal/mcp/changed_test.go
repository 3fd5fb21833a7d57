package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// A session that lives on is told when its tools are others, in every version of the
// protocol, and then sees what they are now.
func TestSessionsAreToldOfOtherTools(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-06-18", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			o := whole()
			reads := make(chan bool, 1)
			reads <- true
			o.Reach = func(*runtime.Principal) Reach { r := <-reads; reads <- r; return Reach{ReadOnly: r} }
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			told := make(chan struct{}, 1)
			session := connect(t, s, version, &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
					select {
					case told <- struct{}{}:
					default:
					}
				},
			})
			if caps := session.InitializeResult().Capabilities; caps.Tools == nil || !caps.Tools.ListChanged {
				t.Fatalf("declared %+v", caps.Tools)
			}
			if !readsOnly(t, session) {
				t.Fatal("call is not read-only at first")
			}
			<-reads
			reads <- false
			for heard, tries := false, 0; !heard; tries++ { // in the newest version nothing says that a client listens yet
				s.ToolsChanged()
				select {
				case <-told:
					heard = true
				case <-time.After(time.Second):
					if tries == 60 {
						t.Fatal("not told")
					}
				}
			}
			if readsOnly(t, session) {
				t.Error("call is still read-only")
			}
		})
	}
}

// readsOnly reports whether call is listed as what changes nothing.
func readsOnly(t *testing.T, session *sdk.ClientSession) bool {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 5 {
		t.Fatalf("%+v %v", list, err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "call" {
			return tool.Annotations.ReadOnlyHint
		}
	}
	t.Fatal("there is no call")
	return false
}

// Over HTTP no session lives on, and none is promised to be told of anything.
func TestOverHTTPNoChangesAreAnnounced(t *testing.T) {
	o := whole()
	o.RequireToken = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
			Endpoint: web.URL + "/mcp", DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if caps := session.InitializeResult().Capabilities; caps.Tools == nil || caps.Tools.ListChanged {
			t.Errorf("%s: declared %+v", version, caps.Tools)
		}
		_ = session.Close()
	}
}
