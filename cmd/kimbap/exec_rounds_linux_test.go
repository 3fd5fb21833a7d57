package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// busyStory makes many calls at once, some of which a person must decide, and says after
// each answer what has come so far: in the order in which the answers came.
const busyStory = `
const order = [];
const seen = name => v => { order.push(name); console.log(order.join(" "), Date.now(), Math.random()); return v.did };
const many = [];
for (let i = 0; i < 10; i++) many.push(tools.notes.getNote({id: "r" + i}).then(seen("r" + i)));
for (let i = 0; i < 4; i++) {
  many.push(tools.notes.createNote({title: "w" + i}).then(seen("w" + i)));
  await new Promise(r => setTimeout(r, 40));
}
for (let i = 0; i < 3; i++) many.push(tools.notes.deleteNote({id: "d" + i}).then(seen("d" + i)));
const first = await Promise.race(many);
const all = await Promise.all(many);
for (let i = 0; i < 4; i++) all.push(await tools.notes.getNote({id: "s" + i}).then(seen("s" + i)));
all.push(await tools.notes.createNote({title: "last"}).then(seen("last")));
return {first, all, order};`

// killRounds is how many scripts are killed; make soak sets it.
func killRounds(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("KIMBAP_ROUNDS"))
	if err != nil || n < 1 {
		return 4
	}
	return min(n, 500)
}

// Killed with kill -9 again and again, at any moment, while calls are under way, while
// people are asked and while it is run again: what may not be repeated is done once at
// most, also where nobody knows whether it was done; what was told before is told again;
// and a script that ends well has done everything.
func TestScriptsKilledAtAnyMomentDoNothingTwice(t *testing.T) {
	r := newScriptRig(t)
	ends := map[string]int{}
	most := 1 // milliseconds: a first round that nobody kills says how long there is to kill one
	for round := range killRounds(t) + 1 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		r.api.forget()
		began := time.Now()
		end := r.killedRound(t, random, min(round, 1)*(1+random.IntN(6)), most)
		if round == 0 {
			most = max(int(time.Since(began).Milliseconds()), 200)
			if !end.Success {
				t.Fatalf("nobody killed it: %s", end.text)
			}
		}
		ends[fmt.Sprint(end.status, " ", end.Kind)]++
		if err := onceEach(r.api.seen(), end); err != nil {
			t.Fatalf("round %d, seed %d: %v\n%s", round, seed, err, end.text)
		}
	}
	t.Logf("ended as %v", ends)
	r.kimbap("", "audit", "verify")
}

// killedRound runs the story, kills its proxy so many times, each within so many
// milliseconds of a request, says yes to what is asked, and returns how it ended.
func (r *scriptRig) killedRound(t *testing.T, random *rand.Rand, kills, most int) told {
	t.Helper()
	before := r.begunOrNot()
	r.serve()
	defer func() { r.kill() }()
	path, body := "/v1/exec", any(map[string]any{"code": busyStory})
	var logs []string
	for turn := range 60 {
		proxy, dying := r.proxy.Process, make(chan struct{})
		if turn < kills {
			time.AfterFunc(time.Duration(random.IntN(most))*time.Millisecond, func() { _ = proxy.Kill(); close(dying) })
		}
		got, err := r.ask("POST", path, body)
		if turn < kills {
			<-dying // it may have answered before
			_ = r.proxy.Wait()
			r.serve()
		}
		id := r.begunOrNot()
		if id == before { // it was killed before anything was said of the script
			continue
		}
		path, body = "/v1/exec/"+id+"/resume", map[string]any{}
		if err != nil {
			continue
		}
		logs = r.toldAgain(t, logs, got)
		switch {
		case got.status == 400 || got.status == 404: // killed before the journal had it: nothing goes on
			return got
		case got.Paused != nil:
			r.accept()
		case got.status == 200:
			if again := r.must(200, "POST", path, body); string(again.Value) != string(got.Value) || again.Kind != got.Kind {
				t.Fatalf("it ended as %s\nand is then told as %s", got.text, again.text)
			}
			return got
		}
	}
	t.Fatal("it never ends")
	return told{}
}

// toldAgain holds a script that is run again to what it had said.
func (r *scriptRig) toldAgain(t *testing.T, before []string, got told) []string {
	t.Helper()
	if got.Kind != "" || !got.Success && got.Paused == nil {
		return before
	}
	var now []string
	for _, l := range got.Logs {
		now = append(now, l.Message)
	}
	if len(now) < len(before) || strings.Join(now[:len(before)], "\n") != strings.Join(before, "\n") {
		t.Fatalf("it said\n%s\nand now\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
	}
	return now
}

// accept says yes to all that is asked.
func (r *scriptRig) accept() {
	r.t.Helper()
	var open []struct{ ID string }
	check(r.t, json.Unmarshal([]byte(r.kimbap("", "approve", "list", "-o", "json")), &open))
	for _, o := range open {
		r.kimbap("", "approve", "accept", o.ID)
	}
}

// begunOrNot is the id of the last execution that the trail has, empty for none.
func (r *scriptRig) begunOrNot() string {
	r.t.Helper()
	list := r.kimbap("", "audit", "search", "--text", "exec.start", "--limit", "1", "-o", "json")
	return regexp.MustCompile(`exe_[0-9a-z]+`).FindString(list)
}

// onceEach holds the upstream's counts to what a script's end says.
func onceEach(seen map[string]int, end told) error {
	mayNot := []string{"POST /notes w0", "POST /notes w1", "POST /notes w2", "POST /notes w3", "POST /notes last", "DELETE /notes/d0", "DELETE /notes/d1", "DELETE /notes/d2"}
	for _, what := range mayNot {
		if n := seen[what]; n > 1 || end.Success && n != 1 {
			return fmt.Errorf("%s was done %d times: %v", what, n, seen)
		}
	}
	if !end.Success {
		if end.status == 200 && (end.Kind != "interrupted" || !strings.Contains(end.Error, "may not be repeated")) {
			return fmt.Errorf("it ended as %q", end.Kind)
		}
		return nil
	}
	var value struct{ All, Order []string }
	if err := json.Unmarshal(end.Value, &value); err != nil || len(value.All) != 22 || len(value.Order) != 22 {
		return fmt.Errorf("its value: %v", err)
	}
	return nil
}
