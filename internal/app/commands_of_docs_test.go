package app_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	agent "fairway/internal/agent/command"
	"fairway/internal/app"
	"fairway/internal/app/authority"
	"fairway/internal/ctl"
	"fairway/internal/dev"
	"fairway/internal/golden"
)

// TestCommandsOfDocs parses each command in the blocks of README and docs with the program's own commands and flags. Most need a
// cluster to run; the demos run the first commands of README.
func TestCommandsOfDocs(t *testing.T) {
	const top = "../.."
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(top, "README.md")}
	for _, dir := range []string{"docs", "examples"} {
		if err := filepath.WalkDir(filepath.Join(top, dir), func(path string, _ fs.DirEntry, err error) error {
			if filepath.Ext(path) == ".md" {
				files = append(files, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	parsed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(text)) {
			known, err := parseCommand(line, string(makefile))
			if err != nil {
				t.Errorf("%s: %s\n%v", file, line, err)
			}
			if known {
				parsed++
			}
		}
	}
	if parsed < 20 {
		t.Errorf("only %d commands were found", parsed)
	}
}

// commandLines returns the lines of fenced blocks that are of no other language than a shell's, without comments.
func commandLines(text string) (out []string) {
	for {
		_, after, found := strings.Cut(text, "\n```")
		if !found {
			return out
		}
		language, rest, _ := strings.Cut(after, "\n")
		block, left, _ := strings.Cut(rest, "\n```")
		text = left
		if language != "" && language != "sh" {
			continue
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
}

// discoveryCommand is pilot-discovery's command line, but for replay, which package main has.
func discoveryCommand() *cobra.Command {
	discovery := &cobra.Command{
		Use: "discovery", Short: "Serve xDS to the Envoys of the mesh", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {},
	}
	app.NewDiscoveryFlags().Bind(discovery.Flags())
	root := &cobra.Command{Use: "pilot-discovery"}
	root.AddCommand(discovery)
	root.AddCommand(authority.Commands()...)
	root.AddCommand(dev.Command())
	return root
}

// TestFlagsReference: docs/reference/flags.md has each verb and flag of the three programs. -update writes it.
func TestFlagsReference(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Verbs and flags\n\nA test makes this page from the programs (`go test ./internal/app -update`). " +
		"Flags of Istio's that have no effect here are in [../variables.md](../variables.md).\n")
	programs := []*cobra.Command{discoveryCommand(), agent.New(&bytes.Buffer{}, &bytes.Buffer{}), ctl.Command("test")}
	for _, root := range programs {
		fmt.Fprintf(&out, "\n## %s\n", root.Name())
		describeFlags(&out, root)
	}
	golden.File(t, "../../docs/reference/flags.md", out.String())
}

func describeFlags(out *strings.Builder, c *cobra.Command) {
	if c.Runnable() || c.PersistentFlags().HasFlags() {
		fmt.Fprintf(out, "\n### %s\n%s\n", c.UseLine(), c.Short)
		var rows []string
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			if def := f.DefValue; !f.Hidden && f.Name != "help" {
				if def == "[]" || def == "false" || def == "0" || def == "0s" {
					def = ""
				}
				if def != "" {
					def = "`" + def + "`"
				}
				usage := strings.ReplaceAll(strings.Join(strings.Fields(f.Usage), " "), "|", "\\|")
				rows = append(rows, fmt.Sprintf("| %s | %s | %s |", name, usage, def))
			}
		})
		if len(rows) > 0 {
			fmt.Fprintf(out, "\n| flag | it is | default |\n|---|---|---|\n%s\n", strings.Join(rows, "\n"))
		}
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() && below.Name() != "completion" && below.Name() != "help" {
			describeFlags(out, below)
		}
	}
}

// variable is an environment variable before a command.
var variable = regexp.MustCompile(`^[A-Z_]+=`)

// parseCommand reports whether a line is a command of this project, and why it cannot be run.
func parseCommand(line, makefile string) (known bool, err error) {
	words := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return w == "sudo" || w == "$" || variable.MatchString(w) })
	if len(words) == 0 || strings.ContainsAny(line, "[…►") {
		return false, nil // a form or a picture, not a command
	}
	var root *cobra.Command
	switch filepath.Base(words[0]) {
	case "make":
		for _, target := range words[1:] {
			if !strings.HasPrefix(target, "-") && regexp.MustCompile(`^[a-z-]+$`).MatchString(target) &&
				!regexp.MustCompile(`(?m)^([a-z-]+ )*`+target+`( [a-z-]+)*:`).MatchString(makefile) {
				return true, fmt.Errorf("the Makefile has no target %s", target)
			}
		}
		return true, nil
	case "pilot-discovery":
		root = discoveryCommand()
	case "pilot-agent":
		root = agent.New(&bytes.Buffer{}, &bytes.Buffer{})
	case "pilotctl":
		root = ctl.Command("test")
	default:
		return false, nil
	}
	if at := slices.IndexFunc(words, func(w string) bool {
		return w == "|" || w == "&&" || w == ";" || strings.HasPrefix(w, ">") || strings.HasPrefix(w, "2>")
	}); at > 0 {
		words = words[:at]
	}
	found, rest, err := root.Find(words[1:])
	if err != nil {
		return true, fmt.Errorf("find the command: %w", err)
	}
	if err := found.ParseFlags(rest); err != nil {
		return true, fmt.Errorf("%s: %w", found.CommandPath(), err)
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		return true, fmt.Errorf("%s: %w", found.CommandPath(), err)
	}
	if !found.Runnable() {
		return true, fmt.Errorf("%s is no command by itself", found.CommandPath())
	}
	return true, nil
}
