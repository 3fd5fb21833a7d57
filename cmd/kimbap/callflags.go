package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// callFlags are what `call` takes beside the arguments of the action.
type callFlags struct {
	input  string
	dryRun bool
	trace  bool
	noWait bool
	help   bool
	all    bool
	most   int
}

// argFlag is the flag of one argument. It judges a value when it is given, so
// that what is wrong with one flag is said before anything else is done.
type argFlag struct {
	c      *cli
	action *runtime.Action
	p      *runtime.Param
	value  any
	given  bool
}

var _ pflag.Value = (*argFlag)(nil)

// String implements [pflag.Value].
func (f *argFlag) String() string {
	if f.p == nil || !f.given {
		return ""
	}
	return fmt.Sprint(f.value)
}

// Type implements [pflag.Value].
func (f *argFlag) Type() string { return string(f.p.Type) }

// Set implements [pflag.Value]. "@file" is the content of a file, "@-" of stdin,
// "@@x" the text "@x". A list takes one element a time, or a whole one in JSON; anything
// else is given once, since nobody could tell which of two values is meant.
// The word null is null where the argument may be; its text is left to --input.
func (f *argFlag) Set(text string) error {
	if f.given && f.p.Type != runtime.TypeArray {
		return usage("give it once, with all that it is to hold", "--%s takes one value, and is given more than once", runtime.CallFlag(f.p.Name))
	}
	if text == "null" && f.p.Nullable {
		f.value, f.given = nil, true
		return nil
	}
	value, isFile, err := f.read(text)
	if err != nil {
		return err
	}
	if !isFile {
		var complaint string
		if value, complaint = app.Argument(f.p, value.(string)); complaint != "" {
			return fmt.Errorf("--%s %s", runtime.CallFlag(f.p.Name), complaint)
		}
	}
	f.given = true
	if f.p.Type != runtime.TypeArray {
		f.value = value
		return nil
	}
	more, isList := value.([]any)
	if !isList {
		more = []any{value}
	}
	before, _ := f.value.([]any)
	f.value = append(before, more...)
	return nil
}

// read takes "@" off a value. In the body of a form with files the file itself
// is the value, with its name.
func (f *argFlag) read(text string) (value any, isFile bool, err error) {
	path, at := strings.CutPrefix(text, "@")
	switch {
	case !at:
		return text, false, nil
	case strings.HasPrefix(path, "@"):
		return path, false, nil
	}
	data, err := f.c.readInput(path)
	if err != nil {
		return nil, false, err
	}
	h := f.action.HTTP
	if inBody := h != nil && f.p.In == runtime.InBody; !inBody || h.BodyType != "multipart" {
		if !utf8.Valid(data) && (!inBody || h.BodyType != "raw") {
			return nil, false, usage("send it to an action whose body is a file", "--%s: %s is not text (UTF-8), and this argument is", runtime.CallFlag(f.p.Name), path)
		}
		return string(data), false, nil
	}
	part := map[string]any{"filename": filepath.Base(path)}
	if path == "-" {
		part["filename"] = "stdin"
	}
	if utf8.Valid(data) {
		part["content"] = string(data)
	} else {
		part["base64"] = base64.StdEncoding.EncodeToString(data)
	}
	return part, true, nil
}

// ownFlags are what call takes beside the arguments of an action, the global flags among them.
func (c *cli) ownFlags(cmd *cobra.Command, f *callFlags) *pflag.FlagSet {
	flags := pflag.NewFlagSet("call", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	flags.StringVar(&f.input, "input", "", "arguments as one JSON object: a file, or - for stdin")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the request, send nothing")
	flags.BoolVar(&f.trace, "trace", false, "show the six stages with their times")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait for an approval: print its id and exit 6")
	flags.BoolVar(&f.all, "all", false, "ask for all pages of a long answer")
	flags.IntVar(&f.most, "max", 0, "ask for pages until there are this many elements")
	flags.BoolVarP(&f.help, "help", "h", false, "describe the action")
	flags.AddFlagSet(cmd.Root().PersistentFlags())
	return flags
}

// actionFlags makes flags of the action's arguments. "-" stands for "_" too.
func (c *cli) actionFlags(cmd *cobra.Command, action *runtime.Action, f *callFlags) (*pflag.FlagSet, []*argFlag) {
	flags := c.ownFlags(cmd, f)
	var args []*argFlag
	names := map[string]bool{}
	for i := range action.Params {
		p := &action.Params[i]
		arg := &argFlag{c: c, action: action, p: p}
		name := runtime.CallFlag(p.Name)
		flags.Var(arg, name, p.Description)
		if p.Type == runtime.TypeBoolean {
			flags.Lookup(name).NoOptDefVal = "true"
		}
		args, names[name] = append(args, arg), true
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if other := strings.ReplaceAll(name, "-", "_"); !names[name] && names[other] {
			name = other
		}
		return pflag.NormalizedName(name)
	})
	return flags, args
}

// arguments gathers what the flags and --input say.
func (c *cli) arguments(flags []*argFlag, input string) (runtime.Args, error) {
	args := runtime.Args{}
	if input != "" {
		if _, err := os.Stat(input); err != nil && strings.HasPrefix(strings.TrimSpace(input), "{") {
			return nil, usage("echo '{…}' | kimbap call SERVICE.ACTION --input -", "--input takes the name of a file, not the JSON itself")
		}
		data, err := c.readInput(input)
		if err != nil {
			return nil, err
		}
		if args, err = readArguments(data); err != nil {
			return nil, usage("give one JSON object, for example {\"owner\": \"cli\"}", "--input is not a JSON object: %v", err)
		}
	}
	for _, f := range flags {
		if f.given {
			args[f.p.Name] = f.value
		}
	}
	return args, nil
}

// readArguments reads one JSON object. Bytes that are no UTF-8, and names that stand twice,
// are not what whoever wrote them sees there.
func readArguments(data []byte) (args runtime.Args, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors and shells put it first
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&args)
	kind := (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &kind):
		return nil, fmt.Errorf("it is of type %s", kind.Value)
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	case args == nil:
		return nil, errors.New("it is null")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	if complaint := app.Doubled(data); complaint != "" {
		return nil, errors.New(complaint)
	}
	return args, nil
}

func (c *cli) readInput(path string) ([]byte, error) {
	if path == "-" {
		if c.piped {
			return nil, usage("put one of them into a file", "stdin is asked for twice, and can be read once")
		}
		c.piped = true
		if c.stdin != nil {
			return c.stdin, nil
		}
		data, err := c.readStdin(mostInput + 1)
		c.stdin = append([]byte{}, data...)
		return withinInput("stdin", data, err)
	}
	data, err := system.ReadUpTo(path, mostInput+1)
	if err != nil {
		return nil, unread(path, err)
	}
	return withinInput(path, data, nil)
}

// mostInput bounds what is read for arguments, in bytes: all of it is held in memory.
const mostInput = 256 << 20

// withinInput refuses what is longer.
func withinInput(from string, data []byte, err error) ([]byte, error) {
	if len(data) > mostInput {
		return nil, usage("send it with a client through: kimbap run -- curl …", "%s is over %d MiB", from, mostInput>>20)
	}
	return data, err
}

// readStdin reads all there is, up to so many bytes, at a terminal until Ctrl-D. Flags are read
// here too, which know no context: Ctrl-C and --timeout end it by themselves.
func (c *cli) readStdin(most int64) ([]byte, error) {
	ctx, stop := c.bounded(context.Background())
	defer stop()
	data, err := awaited(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(c.in, most)) })
	switch {
	case err == nil || ctx.Err() == nil:
		return data, err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, c.late("stdin did not end in that time")
	}
	return nil, c.interrupted()
}
