package epoch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is all that an Envoy is started with, but for what ties it to other epochs.
type Plan struct {
	Binary string   // path
	Args   []string // without --config-path and those of hot restart
	// Env are variables that it gets beside the agent's own: "NAME=value", in order. Their names begin with EnvPrefix.
	Env []string
	// Bootstrap is the configuration's text, Suffix the end of its file's name, by which Envoy tells the format: ".json", ".yaml".
	Bootstrap []byte
	Suffix    string

	stamp    string // tells one file of the name Binary from the next; Check fills it in
	protocol string // Binary's --hot-restart-version; Check fills it in, empty where Binary has none
}

// EnvPrefix begins the names of the variables that a plan gives an Envoy. Variables of the agent's own with such a name are not handed on, so that what a running Envoy has of
// them is its plan's.
const EnvPrefix = "FAIRWAY_"

// Equal says whether an Envoy started by q would be another one than that started by p. Both have passed Check.
func (p Plan) Equal(q Plan) bool {
	return p.Binary == q.Binary && p.stamp == q.stamp && p.Suffix == q.Suffix && slices.Equal(p.Args, q.Args) && slices.Equal(p.Env, q.Env) && bytes.Equal(p.Bootstrap, q.Bootstrap)
}

// environment is that of the plan's Envoy: the agent's own but for what only plans say, and the plan's.
func (p Plan) environment() []string {
	planned := func(variable string) bool { return strings.HasPrefix(variable, EnvPrefix) }
	return append(slices.DeleteFunc(os.Environ(), planned), p.Env...)
}

// PlanError says that a plan cannot work. Nothing was started.
type PlanError struct{ Err error }

func (e *PlanError) Error() string { return e.Err.Error() }
func (e *PlanError) Unwrap() error { return e.Err }

// validation takes a tenth of a second; a binary that is no Envoy may sit there for ever.
const validationTimeout = 30 * time.Second

// stampOf tells files apart: a binary that is replaced gets another inode or time.
func stampOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano()), nil
}

// Stamped fills in what Equal compares beside the fields: which file the binary is now.
func (p Plan) Stamped() (Plan, error) {
	stamp, err := stampOf(p.Binary)
	if err != nil {
		return p, &PlanError{fmt.Errorf("no Envoy to run: %w", err)}
	}
	p.stamp = stamp
	return p, nil
}

// check has the plan's Envoy read the file without acting on it: an Envoy that fails later, in the middle of a hot restart, costs its parent the administration.
func (p Plan) check(ctx context.Context, file string, hot bool) (Plan, error) {
	p, err := p.Stamped()
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, validationTimeout)
	defer cancel()
	args := append([]string{"--config-path", file, "--mode", "validate", "--disable-hot-restart"}, quiet(p.Args)...)
	cmd := exec.CommandContext(ctx, p.Binary, args...)
	cmd.WaitDelay = time.Second
	protocol := make(chan string, 1)
	go func() { // beside: a start waits for both
		if hot {
			protocol <- hotRestartVersion(ctx, p.Binary)
		}
		close(protocol)
	}()
	out, err := cmd.CombinedOutput()
	p.protocol = <-protocol
	if err == nil {
		return p, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return p, fmt.Errorf("validate the bootstrap: %w", ctx.Err())
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: is it an Envoy?", validationTimeout)
	}
	return p, &PlanError{fmt.Errorf("%s refuses its bootstrap: %w\n%s\nto see more: %s --mode validate -c %s",
		p.Binary, err, lastLines(string(out), 8), p.Binary, file)}
}

// quiet has only errors logged: what Envoy says of a bootstrap that it refuses should not have to be searched for.
func quiet(args []string) []string {
	out := []string{"--log-level", "error"}
	for i := 0; i < len(args); i++ {
		if args[i] == "--log-level" || args[i] == "--component-log-level" {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// hotRestartVersion asks a binary which others it can take over from: the last line it says, below what it may complain of. Those built without hot restart say nothing of use.
func hotRestartVersion(ctx context.Context, binary string) string {
	cmd := exec.CommandContext(ctx, binary, "--hot-restart-version")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput() // Envoy says it on its standard error
	said := strings.TrimSpace(string(out))
	version := said[strings.LastIndexByte(said, '\n')+1:]
	if err != nil || version == "" || strings.Trim(version, "0123456789.") != "" {
		return ""
	}
	return version
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

// folder is where bootstraps are written.
type folder struct {
	path  string
	ours  bool // made here: removed when empty
	count int  // of files written so far
}

// openFolder makes the folder if it is missing.
func openFolder(path string) (*folder, error) {
	_, missing := os.Stat(path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, &PlanError{fmt.Errorf("make the folder for Envoy's configuration: %w; name a writable one with --configPath", err)}
	}
	return &folder{path: path, ours: missing != nil}, nil
}

// bootstrapName begins the names of files that Envoys are started with.
const bootstrapName = "envoy-rev"

// after has the next file numbered above one that an agent before this one wrote.
func (f *folder) after(file string) {
	number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), bootstrapName), filepath.Ext(file))
	if n, err := strconv.Atoi(number); err == nil {
		f.count = max(f.count, n+1)
	}
}

// writeNext puts the bootstrap of the next epoch into a file of its own.
func (f *folder) writeNext(p Plan) (path string, err error) {
	path, err = f.write(fmt.Sprintf("%s%d%s", bootstrapName, f.count, p.Suffix), p.Bootstrap)
	if err == nil {
		f.count++
	}
	return path, err
}

// checked has Envoy read the plan's bootstrap, and say how it is hot-restarted where that is asked. The file stays only where it is refused: the error names it.
func (f *folder) checked(ctx context.Context, p Plan, hot bool) (Plan, error) {
	path, err := f.write("envoy-checked"+p.Suffix, p.Bootstrap)
	if err != nil {
		return p, err
	}
	p, err = p.check(ctx, path, hot)
	if err == nil {
		os.Remove(path)
	}
	return p, err
}

// write makes a file, whole or not at all.
func (f *folder) write(name string, content []byte) (path string, err error) {
	tmp, err := os.CreateTemp(f.path, "."+name+"-")
	if err != nil {
		return "", &PlanError{fmt.Errorf("write Envoy's configuration: %w; name a writable folder with --configPath", err)}
	}
	defer os.Remove(tmp.Name()) // fails once renamed
	_, err = tmp.Write(content)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	path = filepath.Join(f.path, name)
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", &PlanError{fmt.Errorf("write Envoy's configuration: %w; make room, or name another folder with --configPath", err)}
	}
	return path, nil
}

// close removes the folder where it was made here; it stays where somebody else put something there.
func (f *folder) close() {
	if f.ours {
		os.Remove(f.path)
	}
}
