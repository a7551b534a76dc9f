package ctl

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/injection"
	"fairway/internal/ctl/installing"
	"fairway/internal/ctl/kubeinject"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/planning"
	"fairway/internal/ctl/proxyconfig"
	"fairway/internal/ctl/stored"
	"fairway/internal/ctl/truth"
	"fairway/internal/ctl/validate"
	"fairway/internal/ctl/workload"
	"fairway/internal/printable"
	"fairway/internal/verbs"
	"fairway/internal/xdstype"
)

// problemList annotates the verbs that print a list of problems: it has more formats.
const problemList = "problems"

// ExitCode returns pilotctl's exit code: 0 without an error; 1 if the control plane did not answer or does not know, or if analyze found
// problems at its threshold, or if something that wait waits for is not in force; 2 if the command line is wrong or names a file that
// cannot be read, or if wait gets no answer.
func ExitCode(err error) int {
	var f output.Failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return 1
	}
	return 2
}

// Command returns pilotctl with all its verbs.
func Command(version string) *cobra.Command {
	s := &session{own: version}
	root := &cobra.Command{
		Use: "pilotctl", Short: "Ask a Fairway control plane", SilenceUsage: true, SilenceErrors: true, Version: version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Annotations[problemList] != "" {
				return output.KnownProblemFormat(s.format, "table")
			}
			return output.KnownFormat(s.format)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(
		&s.address,
		"address",
		"",
		"where pilot-discovery serves its debug pages: its --httpAddr on its own machine, else https:// and its --httpsAddr "+
			"(default: this user's pilot-discovery dev if it runs; the control planes of the kubeconfig's cluster; without a kubeconfig "+
			localAddress+")",
	)
	s.cluster.Bind(flags)
	s.credentials.bind(flags)
	flags.StringVarP(&s.format, "output", "o", "table",
		"table, json or yaml; for problems and validate also oneline, sarif or github")
	root.AddCommand(s.proxyStatus(), proxyconfig.Command(s, s.secrets()), s.problems(),
		s.services(), s.analyze(), s.tables(), s.certificates(),
		s.version(version), injection.Check(s, &s.cluster),
		injection.Injector(s, &s.cluster), s.dashboard(), s.remoteClusters(), s.experimental(), workload.Command(), kubeinject.Command())
	check := validate.Command(validate.Options{Format: func() string { return s.format }, Version: version})
	check.Annotations = map[string]string{problemList: "true"}
	root.AddCommand(check)
	root.AddCommand(truth.Commands(s)...)
	root.AddCommand(s.operating(version)...)
	root.AddCommand(planning.Commands(s)...)
	root.AddCommand(stored.Commands(truth.Follow(s), &s.cluster)...)
	root.AddCommand(installing.Commands(&s.cluster)...)
	root.AddCommand(ambient("ztunnel-config", "zc"), ambient("waypoint"))
	s.complete(root)
	verbs.Strict(root)
	return root
}

// ambient is a verb of istioctl's for ambient mode.
func ambient(name string, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use: name, Aliases: aliases, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%s: there is no ambient mode here, no ztunnel and no waypoint: proxies are sidecars and gateways "+
				"(pilotctl proxy-status)", name)
		},
	}
}

// Run implements proxyconfig.Session.
func (s *session) Run(do func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return s.run(do)
}

func (s *session) show(cmd *cobra.Command, sh output.Sheet) error {
	return sh.Write(cmd.OutOrStdout(), s.format)
}

// run marks the errors of a command that was parsed.
func (s *session) run(do func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		defer s.close()
		if err := do(cmd, args); err != nil {
			return output.Fail(err)
		}
		return nil
	}
}

func (s *session) proxyStatus() *cobra.Command {
	namespace, everywhere := "", false
	cmd := &cobra.Command{
		Use: "proxy-status [PROXY]", Aliases: []string{"ps"}, Args: cobra.MaximumNArgs(1), ValidArgsFunction: s.Names,
		Short: "Which proxies are connected and whether each has acknowledged all it was sent",
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			only := ""
			if len(args) == 1 {
				var err error
				if only, err = s.Proxy(cmd.Context(), args[0], namespace); err != nil {
					return err
				}
			}
			proxies, missing := gather[page.ProxySync](cmd.Context(), s, "/debug/syncz", nil)
			if missing != nil && len(proxies) == 0 {
				return missing
			}
			proxies = slices.DeleteFunc(proxies, func(p page.ProxySync) bool {
				elsewhere := namespace != "" && !everywhere && !strings.HasSuffix(page.ShortName(p.ProxyID), "."+namespace)
				return elsewhere || only != "" && page.Fit(p.ProxyID, p.Identity, only) == 0
			})
			if only != "" && len(proxies) == 0 {
				return fmt.Errorf("no connected proxy is called %q; pilotctl proxy-status lists them", only)
			}
			return errors.Join(s.show(cmd, statusSheet(proxies)), missing)
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only proxies of this namespace")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces, whatever -n says")
	return cmd
}

func statusSheet(proxies []page.ProxySync) output.Sheet {
	sh := output.Sheet{Header: []string{"NAME", "TYPE"}, Value: proxies, Empty: "no proxy is connected"}
	for _, t := range statusTypes {
		sh.Header = append(sh.Header, strings.ToUpper(t.Label()))
	}
	sh.Header = append(sh.Header, "VERSION")
	proven := slices.ContainsFunc(proxies, func(p page.ProxySync) bool { return p.Identity != "" })
	if proven {
		sh.Header = append(sh.Header, "IDENTITY")
	}
	for _, p := range proxies {
		row := []string{page.ShortName(p.ProxyID), output.OrDash(p.ProxyType)}
		for _, t := range statusTypes {
			row = append(row, syncState(p, t))
		}
		row = append(row, output.OrDash(p.IstioVersion))
		if proven {
			row = append(row, output.OrDash(p.Identity))
		}
		sh.Rows = append(sh.Rows, row)
		sh.Notes = slices.Concat(sh.Notes, lags(p), warms(p), refusals(p), divergence(p))
	}
	return sh
}

// statusTypes are the types that proxy-status has a column of, in istioctl's order.
var statusTypes = func() []xdstype.Type {
	out := []xdstype.Type{xdstype.Clusters, xdstype.Listeners, xdstype.Loads, xdstype.Routes}
	for t := range xdstype.Types {
		if t.Status() != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}()

// syncState returns the state of a type in Istio's words; SYNCED requires that the stream was compared with the tables.
func syncState(p page.ProxySync, t xdstype.Type) string {
	n := p.Nonces[t]
	switch {
	case p.Rejected[t.Label()] != "":
		return "REJECTED"
	case n.Sent == "":
		return "NOT SENT"
	case n.Sent == n.Acked && p.Compared:
		return "SYNCED"
	case n.Sent == n.Acked:
		return "NOT COMPARED"
	}
	return "STALE"
}

// lags returns what a proxy lacks of the last turn.
func lags(p page.ProxySync) (out []string) {
	for _, l := range p.Behind {
		if l.State == "refused" {
			continue // refusals tells more
		}
		behind := "it has just asked"
		if l.Turns > 0 {
			behind = output.Plural(int(min(l.Turns, math.MaxInt32)), "turn") + " behind"
		}
		out = append(out, fmt.Sprintf("%s: %s of %s %s, %s%s", printable.Text(page.ShortName(p.ProxyID), printable.Short),
			output.Plural(l.Resources, "resource"), printable.Text(l.Type, printable.Short), printable.Text(l.State, printable.Short),
			behind, output.Clock(l.Since)))
	}
	return out
}

// warms returns what a proxy has acknowledged and does not use yet.
func warms(p page.ProxySync) []string {
	w := p.Warming
	if w == nil || w.Since == nil {
		return nil
	}
	what := fmt.Sprintf("%s and %s warm", output.Plural(w.Listeners, "listener"), output.Plural(w.Clusters, "cluster"))
	if w.Unknown {
		what = "whether listeners and clusters warm is not known yet"
	}
	return []string{fmt.Sprintf("%s: %s%s", printable.Text(page.ShortName(p.ProxyID), printable.Short), what, output.Clock(w.Since))}
}

// divergence returns the differences that the control plane's audit found for a proxy.
func divergence(p page.ProxySync) []string {
	if p.Diverged == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf(
			"%s: what it was sent differed from the tables in %d places, which an audit found and sent again; the "+
				"control plane's log has both sides: please report it",
			printable.Text(page.ShortName(p.ProxyID), printable.Short),
			p.Diverged,
		),
	}
}

// refusals returns the resources that a proxy refuses, with the proxy's own words.
func refusals(p page.ProxySync) []string {
	var out []string
	for _, t := range statusTypes {
		kind := t.Label()
		if why := p.Rejected[kind]; why != "" {
			name := printable.Text(page.ShortName(p.ProxyID), printable.Short)
			out = append(out, fmt.Sprintf("%s refuses %s; pilotctl problems names the objects that it was made from:\n%s",
				name, kind, output.Indented(why)))
		}
	}
	return out
}

func (s *session) tables() *cobra.Command {
	return &cobra.Command{
		Use:   "tables [TABLE [FILTER]]",
		Short: "The control plane's tables, or the rows of one that hold a text",
		Args:  cobra.MaximumNArgs(2),
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return s.listTables(cmd)
			}
			query := url.Values{"table": {args[0]}, "format": {"json"}}
			if len(args) == 2 {
				query.Set("filter", args[1])
			}
			t, err := ask[page.Table](cmd.Context(), s, "/debug/tablez", query)
			if err != nil {
				return err
			}
			return s.show(cmd, output.Sheet{Header: t.Header, Rows: t.Rows, Value: t, Empty: "no such rows", Wide: true})
		}),
	}
}

func (s *session) listTables(cmd *cobra.Command) error {
	tables, err := ask[[]page.TableInfo](cmd.Context(), s, "/debug/tablez", nil)
	if err != nil {
		return err
	}
	sh := output.Sheet{Header: []string{"TABLE", "KIND", "ROWS", "READS", "RECOMPUTED"}, Value: tables}
	for _, t := range tables {
		sh.Rows = append(sh.Rows, []string{t.Name, t.Kind, fmt.Sprint(t.Rows), fmt.Sprint(t.Edges), fmt.Sprint(t.Recomputed)})
	}
	return s.show(cmd, sh)
}
