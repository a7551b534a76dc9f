package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/output"
	"fairway/internal/printable"
)

// The states of a Result.
const (
	OK      = "ok"
	Warning = "warning" // it works, and something may go wrong later
	Failed  = "failed"  // there is something to mend
	Unknown = "unknown" // it could not be found out
	Unused  = "unused"  // there is no such thing here
)

// Result is the outcome of one check.
type Result struct {
	Part   string `json:"part"`  // of the mesh: control planes, sources, …
	Check  string `json:"check"` // what was looked at
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"` // what was found
	Fix    string `json:"fix,omitempty"`
	Page   string `json:"page,omitempty"` // of the documentation
}

// results collects the outcomes of one part.
type results struct {
	part, page string
	all        []Result
}

func (r *results) add(state, check, detail, fix string) {
	one := Result{Part: r.part, Check: check, State: state, Detail: printable.Text(detail, printable.Long)}
	one.Check = printable.Text(one.Check, printable.Short)
	if state != OK && state != Unused {
		one.Fix, one.Page = printable.Text(fix, printable.Long), r.page
	}
	r.all = append(r.all, one)
}

func (r *results) ok(check, format string, args ...any) {
	r.add(OK, check, fmt.Sprintf(format, args...), "")
}

// unknown notes that a check got no answer.
func (r *results) unknown(check string, err error, fix string) {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in time (" + text + ")"
	}
	r.add(Unknown, check, text, fix)
}

// marks begin the lines of a terminal that shows UTF-8, words those of other outputs.
var (
	marks = map[string]string{OK: "✓", Warning: "!", Failed: "✗", Unknown: "?", Unused: "-"}
	words = map[string]string{OK: "ok     ", Warning: "warning", Failed: "FAILED ", Unknown: "unknown", Unused: "unused "}
)

// beginnings returns the beginnings of lines that fit the output.
func beginnings(w io.Writer) map[string]string {
	f, ok := w.(*os.File)
	if !ok {
		return words
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return words
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(os.Getenv(name)); value != "" {
			if strings.Contains(value, "utf-8") || strings.Contains(value, "utf8") {
				return marks
			}
			return words
		}
	}
	return words
}

// write prints the results for people.
func write(w io.Writer, all []Result) error {
	begin, part := beginnings(w), ""
	var b strings.Builder
	for _, r := range all {
		if r.Part != part {
			if part != "" {
				b.WriteString("\n")
			}
			part = r.Part
			fmt.Fprintln(&b, part)
		}
		fmt.Fprintf(&b, "  %s %s", begin[r.State], r.Check)
		if r.Detail != "" {
			fmt.Fprintf(&b, ": %s", r.Detail)
		}
		b.WriteString("\n")
		if r.Fix != "" {
			fmt.Fprintf(&b, "      fix: %s\n", r.Fix)
		}
		if r.Page != "" {
			fmt.Fprintf(&b, "      see: %s\n", r.Page)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", summary(all))
	_, err := io.WriteString(w, b.String())
	return err
}

func count(all []Result) map[string]int {
	out := map[string]int{}
	for _, r := range all {
		out[r.State]++
	}
	return out
}

func summary(all []Result) string {
	n := count(all)
	out := []string{fmt.Sprintf("%d ok", n[OK])}
	for _, of := range []struct{ state, what string }{
		{Failed, "to mend"}, {Warning, "to look at"}, {Unknown, "unknown"},
	} {
		if n[of.state] > 0 {
			out = append(out, fmt.Sprintf("%d %s", n[of.state], of.what))
		}
	}
	return output.Plural(len(all), "check") + ": " + strings.Join(out, ", ")
}

// verdict returns an error if something is to be mended (exit code 1), or else if something is unknown (exit code 2).
func verdict(all []Result) error {
	n := count(all)
	switch {
	case n[Failed] > 0:
		return output.Fail(fmt.Errorf("%s to mend", output.Plural(n[Failed], "thing")))
	case n[Unknown] > 0:
		return output.CannotSay(fmt.Errorf("%s could not be found out", output.Plural(n[Unknown], "thing")))
	}
	return nil
}

// show prints the results, and returns the verdict.
func show(cmd *cobra.Command, format string, all []Result) error {
	var err error
	if format == "json" || format == "yaml" {
		err = output.WriteValue(cmd.OutOrStdout(), format, all)
	} else {
		err = write(cmd.OutOrStdout(), all)
	}
	if err != nil {
		return output.Fail(err)
	}
	return verdict(all)
}
