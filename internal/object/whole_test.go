package object

import "testing"

// A number is whole by its value, as JSON Schema has it, and not by how it is written.
func TestAWholeNumberIsOneHoweverItIsWritten(t *testing.T) {
	words := Words{Not: "no", None: "none", See: "see"}
	for text, want := range map[string]Whole{
		"5": 5, "5.0": 5, "5e0": 5, "0.5e1": 5, "-5.00": -5, "0": 0, "-0.0": 0, "null": 7, "1e15": 1e15, "9223372036854775807": 1<<63 - 1,
	} {
		in := struct {
			N Whole `json:"n"`
		}{7}
		if err := words.Read([]byte(`{"n":`+text+`}`), &in); err != nil || in.N != want {
			t.Errorf("%s is %d, %v", text, in.N, err)
		}
	}
	for _, text := range []string{"1.5", "1e-1", "1e300", "9007199254740994.0", "9223372036854775808", "-1e19", `"5"`, "true", "[]", "{}"} {
		var in struct {
			N Whole `json:"n"`
		}
		if err := words.Read([]byte(`{"n":`+text+`}`), &in); err == nil || err.Error() != `invalid_input: no: n must be a whole number` {
			t.Errorf("%s is %d, %v", text, in.N, err)
		}
	}
}
