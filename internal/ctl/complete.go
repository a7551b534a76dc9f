package ctl

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/store"
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

// hostNames completes the hosts of services.
func (s *session) hostNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.completed(cmd, func(ctx context.Context) (out []string) {
		hosts, _ := ask[[]page.HostInfo](ctx, s, "/debug/servicez", nil) // completion is silent
		for _, h := range hosts {
			out = append(out, string(h.Hostname))
		}
		return out
	})
}

// objectNames completes KIND, and behind a slash the objects of that kind.
func (s *session) objectNames(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	word, _, isKind := strings.Cut(typed, "/")
	if !isKind {
		names, directive := kindNames("/")
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
	kind, known := config.KindCalled(word, store.Kinds())
	if !known {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.completed(cmd, func(ctx context.Context) (out []string) {
		objects, _ := ask[[]page.ObjectInfo](ctx, s, "/debug/configz", url.Values{"kind": {string(kind)}}) // completion is silent
		for _, o := range objects {
			out = append(out, word+"/"+o.Namespace+"/"+o.Name)
		}
		return out
	})
}

func kindNames(end string) (out []string, directive cobra.ShellCompDirective) {
	for _, kind := range store.Kinds() {
		out = append(out, strings.ToLower(string(kind))+end)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// complete gives the verbs that name objects and proxies their completion.
func (s *session) complete(root *cobra.Command) {
	for _, verb := range root.Commands() {
		switch verb.Name() {
		case "explain", "wait", "history", "applies":
			verb.ValidArgsFunction = s.objectNames
		case "get", "edit", "delete":
			verb.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return kindNames("")
			}
		}
		for _, flag := range []string{"proxy", "from"} {
			if verb.Flags().Lookup(flag) != nil {
				names := func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
					return s.Names(c, nil, typed)
				}
				_ = verb.RegisterFlagCompletionFunc(flag, names) // it fails only for a flag that has one
			}
		}
	}
}
