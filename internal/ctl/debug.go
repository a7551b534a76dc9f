package ctl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/convert"
	"fairway/internal/ctl/injection"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/proxyconfig"
	"fairway/internal/printable"
)

// remoteClusters shows the state of other clusters in each control plane.
func (s *session) remoteClusters() *cobra.Command {
	return &cobra.Command{
		Use: "remote-clusters", Args: cobra.NoArgs,
		Short: "The clusters that the control planes read, and how far each has got",
		RunE: s.run(func(cmd *cobra.Command, _ []string) error {
			clusters, err := gather[page.RemoteCluster](cmd.Context(), s, "/debug/clusterz", nil)
			if err != nil {
				return err
			}
			sh := output.Sheet{Header: []string{"NAME", "SECRET", "STATUS", "ISTIOD"}, Value: clusters, Empty: "no other cluster is read"}
			for _, c := range clusters {
				sh.Rows = append(sh.Rows, []string{
					output.OrDash(c.ID), output.OrDash(c.SecretName), output.OrDash(c.SyncStatus), output.OrDash(c.IstiodID),
				})
			}
			return s.show(cmd, sh)
		}),
	}
}

// experimental adds verbs under the names that istioctl has for them.
func (s *session) experimental() *cobra.Command {
	c := &cobra.Command{Use: "x", Aliases: []string{"experimental", "exp"}, Short: "Verbs that istioctl has below x"}
	c.AddCommand(s.internalDebug(), injection.Check(s, &s.cluster), proxyconfig.Describe(s, s.RootNamespace),
		convert.Command(&s.cluster))
	return c
}

func (s *session) internalDebug() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "internal-debug [PAGE[?QUERY]]",
		Short: "A debug page as the control plane gives it: syncz, config_dump?proxyID=web-1; without a name, the list of pages",
		Args:  cobra.MaximumNArgs(1),
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			name, query, err := pageOf(args)
			if err != nil {
				return err
			}
			var errs []error
			for c, err := range s.planes(cmd.Context()) {
				var body []byte
				if err == nil {
					body, err = c.Get(cmd.Context(), name, query)
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if all {
					fmt.Fprintf(cmd.OutOrStdout(), "# %s\n", c.planeName())
				}
				fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(printable.Lines(string(body), 4*len(body)), "\n"))
				if !all {
					return nil
				}
			}
			return errors.Join(errs...)
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "of all control planes, not of the first that answers")
	return c
}

// pageOf parses the name of a page, with or without /debug before it.
func pageOf(args []string) (path string, query url.Values, err error) {
	if len(args) == 0 {
		return "/debug", nil, nil
	}
	u, err := url.Parse(args[0])
	if err != nil || u.Host != "" || u.Scheme != "" {
		return "", nil, fmt.Errorf("%q is not a page: want a name as syncz, or config_dump?proxyID=web-1", args[0])
	}
	return "/debug/" + strings.TrimPrefix(strings.TrimPrefix(u.Path, "/"), "debug/"), u.Query(), nil
}
