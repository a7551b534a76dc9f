package proxyconfig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/logging"
	"fairway/internal/ctl/output"
	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// Session reaches control planes and proxies, as the global flags say.
type Session interface {
	// Ask reads a page of JSON of the first control plane that has the answer.
	Ask(ctx context.Context, path string, query url.Values, into any) error
	// Proxy returns the name of a proxy that control planes know, of what a user typed and of --namespace.
	Proxy(ctx context.Context, typed, namespace string) (string, error)
	// Envoy returns the administration of a proxy's Envoy. The error says why it cannot be reached from here.
	Envoy(ctx context.Context, proxy string) (Envoy, error)
	// EnvoyAt is Envoy for an address of this machine.
	EnvoyAt(address string) Envoy
	// Connected returns the connected proxies of all control planes.
	Connected(ctx context.Context) ([]page.ProxySync, error)
	// Agent reaches the agent of a proxy, which may change something. The error says why it cannot be reached from here.
	Agent(ctx context.Context, proxy string) (logging.Agent, error)
	// SetAddress says where the control plane is.
	SetAddress(string)
	Format() string
	// Run marks the errors of a command that was parsed, and ends connections.
	Run(do func(*cobra.Command, []string) error) func(*cobra.Command, []string) error
	// Names completes the names of proxies.
	Names(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)
}

// Envoy is the administration of an Envoy.
type Envoy interface {
	Page(ctx context.Context, path string) ([]byte, error)
}

// verb is a verb below proxy-config.
type verb struct {
	session Session
	filter  filter

	namespace, file, admin string
	sent                   bool
}

// table is a type of resource that has a table.
type table struct {
	typ     xdstype.Type
	verb    string
	aliases []string
	short   string
	header  []string
	rows    func(*filter, message) [][]string
	flags   []string
}

func tables() []table {
	return []table{
		{
			xdstype.Clusters, "clusters", []string{"cluster", "c"}, "The clusters a proxy has", clusterHeader, clusterRows,
			[]string{"name", "fqdn", "port", "subset", "direction"},
		},
		{
			xdstype.Listeners, "listeners", []string{"listener", "l"}, "The listeners a proxy has, and where each sends what it takes",
			listenerHeader, listenerRows, []string{"name", "address", "port", "type"},
		},
		{
			xdstype.Routes, "routes", []string{"route", "r"}, "The routes of a proxy, and the VirtualServices that they were made from",
			routeHeader, routeRows, []string{"name", "fqdn", "port"},
		},
		{
			xdstype.Extensions, "ecds", []string{"extensions"}, "The filters that a proxy was sent by themselves",
			[]string{"NAME", "TYPE"}, extensionRows, []string{"name"},
		},
	}
}

// Command returns the verb, with more verbs below it.
func Command(s Session, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "proxy-config", Aliases: []string{"pc"}, Short: "Show the resources that one proxy got",
		Long: "Shows the resources of one proxy. A proxy is pod.namespace, a pod with -n, or deploy/name in a cluster.\n" +
			"With --file it reads a saved config_dump of Envoy's, and asks no control plane.",
	}
	for _, t := range tables() {
		cmd.AddCommand(t.command(s))
	}
	cmd.AddCommand(endpoints(s), everything(s), bootstrap(s), levels(s))
	cmd.AddCommand(more...)
	return cmd
}

// bind declares the flags that all verbs have.
func (v *verb) bind(cmd *cobra.Command) {
	cmd.Args = v.oneProxy
	cmd.ValidArgsFunction = v.session.Names
	cmd.Flags().StringVarP(&v.namespace, "namespace", "n", "", "namespace of the proxy")
	cmd.Flags().StringVarP(&v.file, "file", "f", "", "a saved config_dump of Envoy's, in place of a proxy")
	cmd.Flags().StringVar(&v.admin, "admin", "",
		"host:port of Envoy's administration on this machine (127.0.0.1:15000), in place of a proxy")
}

// oneProxy wants one proxy, or something in its place.
func (v *verb) oneProxy(cmd *cobra.Command, args []string) error {
	switch given := len(args) + one(v.file) + one(v.admin); {
	case given == 0:
		return fmt.Errorf("%s: name one proxy, not 0; pilotctl proxy-status lists them", cmd.CommandPath())
	case len(args) > 1:
		return fmt.Errorf("%s: name one proxy, not %d; pilotctl proxy-status lists them", cmd.CommandPath(), len(args))
	case given > 1:
		return fmt.Errorf("%s: want one of a proxy, --file and --admin", cmd.CommandPath())
	}
	return v.filter.check()
}

func one(text string) int {
	if text == "" {
		return 0
	}
	return 1
}

// source returns where the resources come from.
func (v *verb) source(ctx context.Context, args []string) (source, error) {
	switch {
	case v.file != "":
		text, err := readFile(v.file)
		if err != nil {
			return nil, err
		}
		d, err := readDump(text)
		if err != nil {
			return nil, fmt.Errorf("--file %s: %w", printable.Text(v.file, printable.Long), err)
		}
		return d, nil
	case v.admin != "":
		return fetchDump(ctx, v.session.EnvoyAt(v.admin))
	}
	proxy, err := v.session.Proxy(ctx, args[0], v.namespace)
	return sent{v.session, proxy}, err
}

// fetchDump asks an Envoy for all that it has.
func fetchDump(ctx context.Context, e Envoy) (dump, error) {
	text, err := e.Page(ctx, "/config_dump?include_eds")
	if err != nil {
		return dump{}, err
	}
	return readDump(text)
}

func (t table) command(s Session) *cobra.Command {
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: t.verb + " PROXY", Aliases: t.aliases, Short: t.short,
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			from, err := v.source(cmd.Context(), args)
			if err != nil {
				return err
			}
			sh, err := t.sheet(cmd.Context(), from, &v.filter)
			if err != nil {
				return err
			}
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	v.bind(cmd)
	v.filter.bind(cmd.Flags(), s.SetAddress, t.flags...)
	return cmd
}

// sheet returns the resources that have a row, and their rows.
func (t table) sheet(ctx context.Context, from source, f *filter) (output.Sheet, error) {
	all, err := from.messages(ctx, t.typ)
	if err != nil {
		return output.Sheet{}, err
	}
	sh := output.Sheet{Header: t.header, Empty: "nothing of this kind", Wide: true}
	kept := []message{}
	for _, m := range all {
		if !strings.Contains(m.name, f.name) {
			continue
		}
		if rows := t.rows(f, m); len(rows) > 0 {
			kept = append(kept, m)
			sh.Rows = append(sh.Rows, rows...)
		}
	}
	sh.Value = asList(kept)
	return sh, nil
}

func extensionRows(_ *filter, m message) [][]string {
	typed := object(m.body, "typedConfig")
	kind := text(typed, "typeUrl") // of a filter with a Struct as configuration
	if kind == "" {
		kind = text(typed, "@type")
	}
	return [][]string{{m.name, kind[strings.LastIndexByte(kind, '/')+1:]}}
}

// endpoints shows Envoy's view if it can be reached, else the endpoints that were sent.
func endpoints(s Session) *cobra.Command {
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: "endpoints PROXY", Aliases: []string{"endpoint", "ep"},
		Short: "The endpoints of a proxy's clusters, as its Envoy sees them",
		Long: "Shows the endpoints of a proxy's clusters: their health, whether outlier detection has ejected them, and how many " +
			"requests they got, as the proxy's Envoy counts them. It asks Envoy by a port-forward to its pod, or on this machine. " +
			"If Envoy cannot be reached, it shows the endpoints that were sent, and says why.",
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			sh, err := v.endpointSheet(cmd.Context(), args)
			if err != nil {
				return err
			}
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	v.bind(cmd)
	v.filter.bind(cmd.Flags(), s.SetAddress, "name", "address", "port", "cluster", "status")
	cmd.Flags().BoolVar(&v.sent, "sent", false, "the endpoints that the control plane sent, without asking Envoy")
	return cmd
}

func (v *verb) endpointSheet(ctx context.Context, args []string) (output.Sheet, error) {
	statuses, from, why, err := v.endpointSource(ctx, args)
	if err != nil {
		return output.Sheet{}, err
	}
	sh := output.Sheet{Header: endpointHeader, Empty: "nothing of this kind", Wide: true}
	if from == nil {
		sh.Header = slices.Concat(sh.Header, countHeader)
		kept := []map[string]any{}
		for _, c := range statuses {
			if rows := statusRows(&v.filter, c); len(rows) > 0 && strings.Contains(text(c, "name"), v.filter.name) {
				kept, sh.Rows = append(kept, c), append(sh.Rows, rows...)
			}
		}
		sh.Value = kept
		return sh, nil
	}
	loads, err := from.messages(ctx, xdstype.Loads)
	if err != nil {
		return sh, err
	}
	clusters, err := from.messages(ctx, xdstype.Clusters)
	if err != nil {
		return sh, err
	}
	kept := []message{}
	for _, m := range append(loads, static(clusters)...) {
		if rows := loadRows(&v.filter, m); len(rows) > 0 && strings.Contains(m.name, v.filter.name) {
			kept, sh.Rows = append(kept, m), append(sh.Rows, rows...)
		}
	}
	sh.Value = asList(kept)
	if why != "" {
		sh.Notes = []string{why}
	}
	return sh, nil
}

// static returns the load assignments that clusters have in themselves.
func static(clusters []message) (out []message) {
	for _, c := range clusters {
		if load := object(c.body, "loadAssignment"); load != nil {
			out = append(out, message{name: c.name, body: load})
		}
	}
	return out
}

// endpointSource returns the clusters as Envoy sees them, or else a source of the endpoints that were sent, and why.
func (v *verb) endpointSource(ctx context.Context, args []string) (statuses []map[string]any, from source, why string, err error) {
	if v.file != "" {
		raw, err := readFile(v.file)
		if err != nil {
			return nil, nil, "", err
		}
		statuses, is, err := clusterStatuses(raw)
		if is {
			return statuses, nil, "", nil
		}
		d := dump{}
		if err == nil {
			d, err = readDump(raw)
		}
		if err != nil {
			return nil, nil, "", fmt.Errorf("--file %s: %w", printable.Text(v.file, printable.Long), err)
		}
		return nil, d, "", nil
	}
	envoy, proxy := Envoy(nil), ""
	if v.admin != "" {
		envoy = v.session.EnvoyAt(v.admin)
	} else if proxy, err = v.session.Proxy(ctx, args[0], v.namespace); err != nil {
		return nil, nil, "", err
	} else if v.sent {
		return nil, sent{v.session, proxy}, "", nil
	} else if envoy, err = v.session.Envoy(ctx, proxy); err != nil {
		return nil, sent{v.session, proxy}, notEnvoys(err), nil
	}
	raw, err := envoy.Page(ctx, "/clusters?format=json")
	is := false
	if err == nil {
		statuses, is, err = clusterStatuses(raw)
	}
	if err == nil && !is {
		err = errors.New("it has no cluster_statuses; is this Envoy's administration?")
	}
	if err != nil && proxy != "" {
		return nil, sent{v.session, proxy}, notEnvoys(err), nil
	}
	return statuses, nil, "", err
}

// notEnvoys says why a table is not Envoy's view.
func notEnvoys(err error) string {
	return "These were sent; Envoy's own view is not shown: " + printable.Text(err.Error(), printable.Long)
}
