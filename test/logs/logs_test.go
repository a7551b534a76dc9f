package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/ctl"
	"fairway/internal/ctl/truth/logline"
	"fairway/test/rig"
)

// attempt provokes one line of a log.
type attempt struct {
	name string
	// send sends the request, in whatever way; the line is that of the request.
	send func(t *testing.T)
	// line is a part of the line; empty: the host NAME.test.
	line string
	also string // another part of the line, if there are several requests
	want expected
}

// expected is what explain is to answer.
type expected struct {
	proxy  string // that wrote the line; empty: it is not one of the mesh
	exit   int    // 0: the application answered
	status int    // 0: any
	flag   string // one of the line's flags; empty: it has none
	cause  string // the name of the first cause; empty: any
	object string // of a finding, with its field: "VirtualService default/slow spec.http[0].timeout"; empty: any or none
	means  string // a part of a finding
}

// explain runs pilotctl explain --log.
func explain(line, proxy, plane string) (out []logline.Explanation, text string, code int) {
	run := func(more ...string) string {
		var b bytes.Buffer
		cmd := ctl.Command("test")
		cmd.SetOut(&b)
		cmd.SetErr(&b)
		cmd.SetArgs(append([]string{"explain", "--log", line, "--address", plane}, more...))
		code = 0
		if err := cmd.ExecuteContext(context.Background()); err != nil {
			code = ctl.ExitCode(err)
		}
		return b.String()
	}
	more := []string{}
	if proxy != "" {
		more = append(more, "--proxy", proxy+".default")
	}
	text = run(more...)
	_ = json.NewDecoder(strings.NewReader(run(append(more, "-o", "json")...))).Decode(&out)
	return out, text, code
}

// check explains the line of an attempt.
func (a attempt) check(t *testing.T, line, plane string) {
	t.Helper()
	found, text, code := explain(line, a.want.proxy, plane)
	if len(found) != 1 {
		t.Fatalf("%s\n%s", line, text)
	}
	e, w := found[0], a.want
	note(e)
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if code != w.exit {
		wrong("exit code %d, want %d", code, w.exit)
	}
	if w.status != 0 && e.Line.Code != w.status {
		wrong("status %d, want %d", e.Line.Code, w.status)
	}
	if w.flag == "" && len(e.Line.Flags) > 0 || w.flag != "" && !slices.Contains(e.Line.Flags, w.flag) {
		wrong("flags %v, want %q", e.Line.Flags, w.flag)
	}
	if w.cause != "" && (len(e.Causes) == 0 || e.Causes[0].Name != w.cause) {
		wrong("causes %+v, want first %q", e.Causes, w.cause)
	}
	if w.object != "" || w.means != "" {
		at := slices.IndexFunc(e.Findings, func(f logline.Finding) bool {
			object := strings.TrimSpace(f.Kind + " " + f.Namespace + "/" + f.Name + " " + f.Field)
			return (w.object == "" || object == w.object) && strings.Contains(f.Means, w.means)
		})
		if at < 0 {
			wrong("findings %+v, want %q with %q", e.Findings, w.object, w.means)
		} else if f := e.Findings[at]; w.object != "" && (!strings.HasSuffix(f.File, "/rules.yaml") || f.Line == 0) {
			wrong("%s is said to be at %s:%d", w.object, f.File, f.Line)
		}
	}
	if len(errs) > 0 {
		t.Errorf("%s\n%v\n%s", line, errors.Join(errs...), text)
	}
}

// all makes the attempts, waits for their lines in a log, and checks what explain says of them.
func all(t *testing.T, attempts []attempt, log, plane string) {
	start := time.Now()
	for _, a := range attempts {
		a.send(t)
	}
	sent := time.Since(start)
	lines := map[string]string{}
	rig.Eventually(t, func() error {
		text, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		var missing []string
		for _, a := range attempts {
			if line := a.find(string(text)); line != "" {
				lines[a.name] = line
			} else {
				missing = append(missing, a.name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("no line of %q in the log:\n%s", missing, text)
		}
		return nil
	})
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) { a.check(t, lines[a.name], plane) })
	}
	t.Logf("%d lines explained in %s, of which the requests took %s", len(attempts), time.Since(start), sent)
}

// find returns the last whole line with the attempt's part.
func (a attempt) find(log string) string {
	part := a.line
	if part == "" {
		part = `"` + a.name + `.test"`
	}
	end := strings.LastIndexByte(log, '\n')
	for _, line := range slices.Backward(strings.Split(log[:max(end, 0)], "\n")) {
		if strings.Contains(line, part) && strings.Contains(line, a.also) {
			return line
		}
	}
	return ""
}
