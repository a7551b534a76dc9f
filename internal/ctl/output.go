package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// sheet is what a verb shows: the same rows as a table for people, or the page's own value for programs.
type sheet struct {
	header []string
	rows   [][]string
	value  any    // what json and yaml print
	empty  string // what a table without rows says
}

// write prints s as a table, "json" or "yaml".
func (s sheet) write(w io.Writer, format string) error {
	switch format {
	case "json":
		text, err := json.MarshalIndent(s.value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	case "yaml":
		text, err := yaml.Marshal(s.value)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	case "", "table", "short":
		return s.table(w)
	}
	return fmt.Errorf("-o %s: want table, json or yaml", format)
}

func (s sheet) table(w io.Writer) error {
	if len(s.rows) == 0 && s.empty != "" {
		_, err := fmt.Fprintln(w, s.empty)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(s.header, "\t"))
	for _, row := range s.rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}
