package policy

// Parse compiles a policy of one file, without the schemas of actions. File is
// only named in problems.
func Parse(file string, data []byte) (*Policy, error) { return Compile(nil, File{file, data}) }

// ReadWanted is [Read] with its own say of which files are read.
var ReadWanted = readWanted
