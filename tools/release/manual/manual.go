// Package manual makes manual pages and completions of the programs, from the texts that they print for --help and completion. Start at
// Write.
package manual

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// most bounds how many commands a program may have.
const most = 500

// page is one command.
type page struct {
	words []string // pilotctl, install
	help  help
}

// help is what a command prints for --help, by its headings.
type help struct {
	about    string
	sections []section
	verbs    []string
	texts    map[string]string // of verbs: a line each
}

type section struct {
	title string
	lines []string
}

// Program is one of the programs, and a file of it that this machine can run.
type Program struct{ Name, File string }

// Write writes manual pages, compressed, to man/man1, and completions to completions/bash, zsh and fish, below a folder.
func Write(ctx context.Context, p Program, version string, date time.Time, to string) error {
	pages, err := p.pages(ctx)
	if err != nil {
		return err
	}
	man := filepath.Join(to, "man", "man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	for _, page := range pages {
		name := strings.Join(page.words, "-") + ".1"
		if err := compress(filepath.Join(man, name+".gz"), page.roff(version, date)); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": p.Name, "zsh": "_" + p.Name, "fish": p.Name + ".fish"} {
		text, err := p.ask(ctx, "completion", shell)
		if err != nil {
			return err
		}
		dir := filepath.Join(to, "completions", shell)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func compress(file, text string) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func (p Program) ask(ctx context.Context, words ...string) (string, error) {
	c := exec.CommandContext(ctx, p.File, words...)
	c.Env = []string{"HOME=/nonexistent", "PATH=/usr/bin:/bin"} // a manual must not depend on the machine of the build
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", p.Name, strings.Join(words, " "), err)
	}
	return string(out), nil
}

// pages returns a page for each command that the program lists.
func (p Program) pages(ctx context.Context) (out []page, err error) {
	next := [][]string{{}}
	for len(next) > 0 {
		words := next[0]
		next = next[1:]
		text, err := p.ask(ctx, append(append([]string{}, words...), "--help")...)
		if err != nil {
			return nil, err
		}
		h := parse(text)
		out = append(out, page{append([]string{p.Name}, words...), h})
		if len(out) > most {
			return nil, fmt.Errorf("%s has more than %d commands", p.Name, most)
		}
		for _, verb := range h.verbs {
			if verb != "help" && verb != "completion" {
				next = append(next, append(append([]string{}, words...), verb))
			}
		}
	}
	return out, nil
}

// parse takes a help text apart. A heading is a line that ends in a colon and is not indented, with indented lines below it.
func parse(text string) help {
	h := help{texts: map[string]string{}}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var about []string
	for i, line := range lines {
		title, isHeading := strings.CutSuffix(line, ":")
		isHeading = isHeading && title != "" && line[0] != ' ' && (len(h.sections) > 0 || title == "Usage")
		switch {
		case isHeading && i+1 < len(lines):
			h.sections = append(h.sections, section{title: title})
		case len(h.sections) == 0:
			about = append(about, line)
		case strings.HasPrefix(line, "Use \""): // says how to get help: not in a manual
		default:
			last := &h.sections[len(h.sections)-1]
			last.lines = append(last.lines, strings.TrimPrefix(line, "  "))
			if strings.HasSuffix(last.title, "Commands") && strings.HasPrefix(line, "  ") {
				verb, about, _ := strings.Cut(strings.TrimSpace(line), " ")
				h.verbs = append(h.verbs, verb)
				h.texts[verb] = strings.TrimSpace(about)
			}
		}
	}
	h.about = strings.TrimSpace(strings.Join(about, "\n"))
	return h
}

// roff returns the page in the language of man.
func (p page) roff(version string, date time.Time) string {
	var b strings.Builder
	name := strings.Join(p.words, "-")
	first, _, _ := strings.Cut(p.help.about, "\n")
	first, _, _ = strings.Cut(first, ". ")
	fmt.Fprintf(&b, ".TH %q 1 %q %q %q\n", strings.ToUpper(name), date.UTC().Format("2006-01-02"), "Fairway "+version, "Fairway")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name), escape(strings.TrimSuffix(first, ".")))
	for _, s := range p.help.sections {
		if s.title == "Usage" {
			fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", block(s.lines))
		}
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", block(strings.Split(p.help.about, "\n")))
	for _, s := range p.help.sections {
		if s.title != "Usage" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", strings.ToUpper(s.title), block(s.lines))
		}
	}
	var others []string
	if len(p.words) > 1 {
		others = append(others, strings.Join(p.words[:len(p.words)-1], "-"))
	}
	for _, verb := range p.help.verbs {
		if verb != "help" && verb != "completion" {
			others = append(others, name+"-"+verb)
		}
	}
	for i, other := range others {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		} else {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, ".BR %s (1)", escape(other))
	}
	return b.String() + "\n"
}

func block(lines []string) string {
	var out []string
	for _, line := range lines {
		out = append(out, escape(line))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// escape makes a line stand as it is.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
