package ctl

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
)

// Command returns pilotctl with all its verbs.
func Command(version string) *cobra.Command {
	root := &cobra.Command{Use: "pilotctl", Short: "Ask a Fairway control plane", SilenceUsage: true, SilenceErrors: true, Version: version}
	s := &session{}
	root.PersistentFlags().StringVar(&s.address, "address", "127.0.0.1:8080", "where pilot-discovery serves its debug pages (its --httpAddr)")
	root.PersistentFlags().StringVarP(&s.format, "output", "o", "table", "table, json or yaml")
	root.AddCommand(s.proxyStatus(), s.proxyConfig(), s.problems(), s.tables())
	return root
}

// session is what the global flags say.
type session struct{ address, format string }

func (s *session) show(cmd *cobra.Command, sh sheet) error {
	return sh.write(cmd.OutOrStdout(), s.format)
}

func (s *session) proxyStatus() *cobra.Command {
	return &cobra.Command{
		Use: "proxy-status [PROXY]", Aliases: []string{"ps"}, Args: cobra.MaximumNArgs(1),
		Short: "Which proxies are connected and whether each has acknowledged all it was sent",
		RunE: func(cmd *cobra.Command, args []string) error {
			proxies, err := fetch[[]page.ProxySync](cmd.Context(), newClient(s.address), "/debug/syncz", nil)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				proxies = selectProxies(proxies, args[0])
				if len(proxies) == 0 {
					return fmt.Errorf("no connected proxy is called %q; pilotctl proxy-status lists them", args[0])
				}
			}
			sh := sheet{header: []string{"NAME", "TYPE", "CDS", "LDS", "EDS", "RDS", "VHDS", "VERSION"}, value: proxies, empty: "no proxy is connected"}
			for _, p := range proxies {
				sh.rows = append(sh.rows, []string{shortName(p.ProxyID), p.ProxyType,
					syncState(p, "cds", p.ClusterSent, p.ClusterAcked), syncState(p, "lds", p.ListenerSent, p.ListenerAcked), syncState(p, "eds", p.EndpointSent, p.EndpointAcked),
					syncState(p, "rds", p.RouteSent, p.RouteAcked), syncState(p, "vhds", p.VirtualHostSent, p.VirtualHostAcked), p.IstioVersion})
			}
			return s.show(cmd, sh)
		},
	}
}

// syncState says how a type stands, in Istio's words.
func syncState(p page.ProxySync, kind, sent, acked string) string {
	switch {
	case p.Rejected[kind] != "":
		return "REJECTED"
	case sent == "":
		return "NOT SENT"
	case sent == acked:
		return "SYNCED"
	}
	return "STALE"
}

// shortName is the id part of a node id: "web-1.default" of "sidecar~10.0.0.1~web-1.default~default.svc.cluster.local".
func shortName(id string) string {
	if parts := strings.Split(id, "~"); len(parts) == 4 {
		return parts[2]
	}
	return id
}

// selectProxies keeps those whose node id, name or name without namespace is the one asked for.
func selectProxies(all []page.ProxySync, name string) []page.ProxySync {
	var out []page.ProxySync
	for _, p := range all {
		short := shortName(p.ProxyID)
		if p.ProxyID == name || short == name || strings.HasPrefix(short, name+".") {
			out = append(out, p)
		}
	}
	return out
}

func (s *session) problems() *cobra.Command {
	var severity string
	cmd := &cobra.Command{
		Use: "problems", Short: "What users wrote that does not do what it says: where it stands and what would be right", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if severity != "" {
				query.Set("severity", severity)
			}
			problems, err := fetch[[]page.ProblemInfo](cmd.Context(), newClient(s.address), "/debug/problems", query)
			if err != nil {
				return err
			}
			sh := sheet{header: []string{"SEVERITY", "OBJECT", "WHERE", "FIELD", "PROBLEM", "FIX"}, value: problems, empty: "no problems"}
			for _, p := range problems {
				sh.rows = append(sh.rows, []string{p.Severity, objectName(p), place(p), p.Field, p.Message, p.Fix})
			}
			return s.show(cmd, sh)
		},
	}
	cmd.Flags().StringVar(&severity, "severity", "", "only problems at least this bad: info, warning or error")
	return cmd
}

func objectName(p page.ProblemInfo) string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

func place(p page.ProblemInfo) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func (s *session) tables() *cobra.Command {
	return &cobra.Command{
		Use: "tables [TABLE [FILTER]]", Short: "The control plane's tables, or the rows of one", Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newClient(s.address)
			if len(args) > 0 {
				query := url.Values{"table": {args[0]}}
				if len(args) == 2 {
					query.Set("filter", args[1])
				}
				text, err := c.get(cmd.Context(), "/debug/tablez", query)
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			tables, err := fetch[[]page.TableInfo](cmd.Context(), c, "/debug/tablez", nil)
			if err != nil {
				return err
			}
			sh := sheet{header: []string{"TABLE", "KIND", "ROWS", "READS", "RECOMPUTED"}, value: tables}
			for _, t := range tables {
				sh.rows = append(sh.rows, []string{t.Name, t.Kind, fmt.Sprint(t.Rows), fmt.Sprint(t.Edges), fmt.Sprint(t.Recomputed)})
			}
			return s.show(cmd, sh)
		},
	}
}
