package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// kind is a type of resource that proxy-config shows. Its rows are read from the message as JSON, so that the command line
// need not carry Envoy's types.
type kind struct {
	typ     xdstype.Type
	verb    string
	aliases []string
	short   string
	header  []string
	rows    func(name string, message map[string]any) [][]string
}

func kinds() []kind {
	return []kind{
		{
			xdstype.Clusters, "clusters", []string{"cluster", "c"}, "The clusters a proxy has",
			[]string{"SERVICE FQDN", "PORT", "SUBSET", "DIRECTION", "TYPE"}, describeCluster,
		},
		{
			xdstype.Listeners, "listeners", []string{"listener", "l"}, "The listeners a proxy has",
			[]string{"LISTENER", "ADDRESS", "PORT", "CHAINS"}, describeListener,
		},
		{
			xdstype.Routes, "routes", []string{"route", "r"}, "The virtual hosts of a proxy's route configurations",
			[]string{"ROUTE CONFIGURATION", "VIRTUAL HOST", "DOMAINS", "ROUTES"}, describeRoutes,
		},
		{
			xdstype.Loads, "endpoints", []string{"endpoint", "ep"}, "The endpoints of a proxy's clusters",
			[]string{"ENDPOINT", "STATUS", "CLUSTER"}, describeEndpoints,
		},
	}
}

func (s *session) proxyConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "proxy-config", Aliases: []string{"pc"}, Short: "Show the resources that one proxy got",
		Args: cobra.ArbitraryArgs, // so that cobra leaves an unknown verb to RunE
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown %q; want pilotctl proxy-config clusters, listeners, routes, endpoints or secret, then a proxy",
					args[0])
			}
			return cmd.Help()
		},
	}
	for _, k := range kinds() {
		var name string
		sub := &cobra.Command{
			Use: k.verb + " PROXY", Aliases: k.aliases, Short: k.short, Args: oneProxy,
			RunE: s.run(func(cmd *cobra.Command, args []string) error {
				resources, err := s.resources(cmd.Context(), args[0], k.typ)
				if err != nil {
					return err
				}
				if name != "" {
					resources = slices.DeleteFunc(resources, func(r page.Resource) bool { return !strings.Contains(r.Name, name) })
				}
				sh := output.Sheet{Header: k.header, Value: resources, Empty: "nothing of this kind"}
				for _, r := range resources {
					sh.Rows = append(sh.Rows, k.describe(r)...)
				}
				if k.typ == xdstype.Routes {
					sh.Rows = withoutEmpty(sh.Rows)
				}
				return s.show(cmd, sh)
			}),
		}
		sub.Flags().StringVar(&name, "name", "", "only resources with this text in their name")
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(s.secrets())
	return cmd
}

func oneProxy(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: name one proxy, not %d; pilotctl proxy-status lists them", cmd.CommandPath(), len(args))
	}
	return nil
}

func (s *session) resources(ctx context.Context, proxy string, typ xdstype.Type) ([]page.Resource, error) {
	return ask[[]page.Resource](ctx, s, "/debug/resourcez", url.Values{"proxyID": {proxy}, "type": {typ.Label()}})
}

// describe gives a resource's lines in a table.
func (k kind) describe(r page.Resource) [][]string {
	var m map[string]any
	if err := json.Unmarshal(r.Body, &m); err != nil {
		return [][]string{{r.Name, err.Error()}}
	}
	return k.rows(r.Name, m)
}

func describeCluster(name string, m map[string]any) [][]string {
	kind := text(m, "type")
	if kind == "" {
		kind = "STATIC"
	}
	direction, port, subset, host, ok := mesh.ClusterParts(name)
	if !ok {
		return [][]string{{name, "-", "-", "-", kind}}
	}
	return [][]string{{output.OrDash(host), port, output.OrDash(subset), direction, kind}}
}

func describeListener(name string, m map[string]any) [][]string {
	host, port := socketOf(object(m, "address"))
	chains := len(list(m, "filterChains"))
	if m["defaultFilterChain"] != nil {
		chains++
	}
	return [][]string{{name, host, output.OrDash(port), fmt.Sprint(chains)}}
}

func describeRoutes(name string, m map[string]any) [][]string {
	hosts := list(m, "virtualHosts")
	if m["domains"] != nil { // a virtual host delivered by itself: its resource name starts with its route configuration's
		hosts = []any{m}
		name, _, _ = strings.Cut(name, "/")
	}
	if len(hosts) == 0 {
		return [][]string{{name, "-", "-", "0"}}
	}
	var rows [][]string
	for _, h := range hosts {
		host, _ := h.(map[string]any)
		var domains []string
		for _, d := range list(host, "domains") {
			domains = append(domains, fmt.Sprint(d))
		}
		shown := strings.Join(domains, ", ")
		if len(domains) > 3 {
			shown = fmt.Sprintf("%s + %d more", strings.Join(domains[:3], ", "), len(domains)-3)
		}
		// the name of a virtual host begins with the name of its route configuration, which has its own column
		short := strings.TrimPrefix(text(host, "name"), name+"/")
		rows = append(rows, []string{name, short, shown, fmt.Sprint(len(list(host, "routes")))})
	}
	return rows
}

// withoutEmpty drops the line of a route configuration without virtual hosts if its virtual hosts follow: those were delivered separately.
func withoutEmpty(rows [][]string) [][]string {
	filled := map[string]bool{}
	for _, row := range rows {
		filled[row[0]] = filled[row[0]] || row[1] != "-"
	}
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "-" && filled[row[0]] })
}

func describeEndpoints(name string, m map[string]any) [][]string {
	var rows [][]string
	for _, l := range list(m, "endpoints") {
		locality, _ := l.(map[string]any)
		for _, e := range list(locality, "lbEndpoints") {
			ep, _ := e.(map[string]any)
			status := text(ep, "healthStatus")
			if status == "" {
				status = "HEALTHY"
			}
			rows = append(rows, []string{address(object(object(ep, "endpoint"), "address")), status, name})
		}
	}
	return rows
}

// socketOf gives an address's host and port; a Unix socket has no port.
func socketOf(a map[string]any) (host, port string) {
	if pipe := object(a, "pipe"); pipe != nil {
		return "unix://" + text(pipe, "path"), ""
	}
	socket := object(a, "socketAddress")
	if socket == nil {
		return "-", ""
	}
	number, _ := socket["portValue"].(float64)
	return text(socket, "address"), strconv.Itoa(int(number))
}

func address(a map[string]any) string {
	host, port := socketOf(a)
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

func object(m map[string]any, field string) map[string]any {
	o, _ := m[field].(map[string]any)
	return o
}

func list(m map[string]any, field string) []any {
	l, _ := m[field].([]any)
	return l
}

func text(m map[string]any, field string) string {
	s, _ := m[field].(string)
	return s
}
