package approval_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// What an agent sends keeps nobody who looks at it waiting, whatever there is to look for in it.
func TestWhatIsLongToLookAtIsShownSoon(t *testing.T) {
	secret, many := strings.Repeat("s3cret!/", 100_000), make([]any, 20_000)
	for i := range many {
		many[i] = fmt.Sprintf("s%06d", i)
	}
	list, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind, body string
		secret     any
	}{
		"a long secret beside many parts":     {"application/x-www-form-urlencoded", "password=" + secret + strings.Repeat("&", 120_000), secret},
		"a list of secrets beside numbers":    {"application/json", `{"n":[` + strings.Repeat("12345678,", 80_000) + `1],"password":` + string(list) + `}`, many},
		"a list of secrets beside the fields": {"", "", many},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			call := posted(agent("a"), c.kind, c.body)
			call.Action.Params = []runtime.Param{{Name: "password", Secret: true}}
			call.Args = runtime.Args{"password": c.secret}
			if c.body == "" {
				for i := range 20_000 {
					call.Request.Raw.Header.Set(fmt.Sprintf("X-Field-%d", i), "12345678")
				}
			}
			id, start := d.ask(t, call), time.Now()
			if v := d.show(t, id, false); v.Complete || strings.Contains(v.Text, "s3cret") || strings.Contains(v.Text, "s000001") {
				t.Errorf("complete %t:\n%.3000s", v.Complete, v.Text)
			}
			if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, ""); err != nil { // what is kept is looked at, too
				t.Fatal(err)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}
