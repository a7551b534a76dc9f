package verbs_test

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"

	"fairway/internal/verbs"
)

func TestStrict(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"group", "one"}, ""},
		{[]string{"group"}, ""},
		{[]string{"group", "on"}, `unknown command "on" for "root group"; did you mean one?`},
		{[]string{"group", "xyz"}, `unknown command "xyz" for "root group"; there are one, two`},
		{[]string{"group", "two", "other"}, `unknown command "other" for "root group two"; there are deep`},
		{[]string{"completion", "fsh"}, `unknown command "fsh" for "root completion"; did you mean bash or fish or zsh?`},
	} {
		run := func(*cobra.Command, []string) {}
		root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true}
		group, two := &cobra.Command{Use: "group"}, &cobra.Command{Use: "two"}
		two.AddCommand(&cobra.Command{Use: "deep", Run: run})
		group.AddCommand(&cobra.Command{Use: "one", Run: run}, two, &cobra.Command{Use: "hidden", Run: run, Hidden: true})
		root.AddCommand(group)
		verbs.Strict(root)
		root.SetArgs(c.args)
		root.SetOut(&bytes.Buffer{})
		got := ""
		if err := root.Execute(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
}
