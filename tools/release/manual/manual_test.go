package manual

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// program prints help as cobra does.
const program = `#!/bin/sh
case "$*" in
"--help") echo 'A tool. It does much.

Words: these are no heading.

Usage:
  tool [command]

Available Commands:
  completion  Generate
  go-on       Goes on

Flags:
  -h, --help   .help and a \ for tool

Use "tool [command] --help" for more information about a command.' ;;
"go-on --help") echo 'Goes on

Usage:
  tool go-on' ;;
"completion "*) echo "$2" ;;
*) exit 1 ;;
esac
`

const want = `.TH "TOOL" 1 "2001-09-09" "Fairway 1.2.3" "Fairway"
.SH NAME
tool \- A tool
.SH SYNOPSIS
.nf
tool [command]
.fi
.SH DESCRIPTION
.nf
A tool. It does much.

Words: these are no heading.
.fi
.SH AVAILABLE COMMANDS
.nf
completion  Generate
go\-on       Goes on
.fi
.SH FLAGS
.nf
\-h, \-\-help   .help and a \e for tool
.fi
.SH SEE ALSO
.BR tool\-go\-on (1)
`

// TestWrite: there is a page for each command, and a completion for each shell.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tool")
	if err := os.WriteFile(file, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), Program{"tool", file}, "1.2.3", time.Unix(1e9, 0), dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "man", "man1", "tool.1.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	others := []string{"man/man1/tool-go-on.1.gz", "completions/bash/tool", "completions/zsh/_tool", "completions/fish/tool.fish"}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
