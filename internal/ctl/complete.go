package ctl

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/printable"
)

// completeWithin bounds how long a shell waits for a completion.
const completeWithin = 2 * time.Second

// completed returns names for a shell, without anything that a shell would read as more than a word. It never fails: without an answer in
// time there are none.
func (s *session) completed(cmd *cobra.Command, names func(context.Context) []string) ([]string, cobra.ShellCompDirective) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	defer s.close()
	s.quiet = true
	var out []string
	for _, name := range names(ctx) {
		if printable.Is(name, printable.Short) && name != "" && !strings.ContainsAny(name, " \t") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}
