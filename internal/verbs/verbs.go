// Package verbs makes command lines strict: a word that is no verb is an error everywhere, with what the user may have meant.
package verbs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Strict makes each command below root that only has verbs of its own refuse other words; cobra would print its help, and succeed. root
// is complete when it is called.
func Strict(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	below(root)
}

func below(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.HasSubCommands() && !c.Runnable() {
			c.Args, c.RunE = cobra.ArbitraryArgs, refuse
		}
		below(c)
	}
}

// distance is how many letters a word may be away from a verb that is suggested for it.
const distance = 2

func refuse(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	c.SuggestionsMinimumDistance = distance
	text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(like, " or "))
	}
	var all []string
	for _, verb := range c.Commands() {
		if verb.IsAvailableCommand() {
			all = append(all, verb.Name())
		}
	}
	return fmt.Errorf("%s; there are %s", text, strings.Join(all, ", "))
}
