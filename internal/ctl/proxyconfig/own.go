package proxyconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/output"
)

// everything shows all tables, or all of the dump.
func everything(s Session) *cobra.Command {
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: "all PROXY", Aliases: []string{"a"},
		Short: "All that a proxy has: each of the other tables, or with -o json Envoy's config_dump",
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			from, err := v.source(cmd.Context(), args)
			if err != nil {
				return err
			}
			if s.Format() != "table" {
				whole, err := from.whole(cmd.Context())
				if err != nil {
					return err
				}
				return output.WriteValue(cmd.OutOrStdout(), s.Format(), whole)
			}
			sheets := []output.Sheet{}
			for _, t := range tables() {
				sh, err := t.sheet(cmd.Context(), from, &v.filter)
				if err != nil {
					return err
				}
				sheets = append(sheets, sh)
			}
			v.sent = true
			sh, err := v.endpointSheet(cmd.Context(), args)
			if err != nil {
				return err
			}
			return showAll(cmd, append(sheets, sh))
		}),
	}
	v.bind(cmd)
	v.filter.bind(cmd.Flags(), s.SetAddress, "name", "port")
	return cmd
}

// showAll prints the tables that have rows, with a line between them.
func showAll(cmd *cobra.Command, sheets []output.Sheet) error {
	shown := 0
	for _, sh := range sheets {
		if len(sh.Rows) == 0 {
			continue
		}
		if shown++; shown > 1 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := sh.Write(cmd.OutOrStdout(), "table"); err != nil {
			return err
		}
	}
	if shown == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "nothing of this kind")
		return err
	}
	return nil
}

// envoy returns the administration of the Envoy that the command line names.
func (v *verb) envoy(ctx context.Context, args []string) (Envoy, error) {
	if v.admin != "" {
		return v.session.EnvoyAt(v.admin), nil
	}
	proxy, err := v.session.Proxy(ctx, args[0], v.namespace)
	if err != nil {
		return nil, err
	}
	return v.session.Envoy(ctx, proxy)
}

// bootstrap shows what Envoy was started with, which only Envoy has.
func bootstrap(s Session) *cobra.Command {
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: "bootstrap PROXY", Aliases: []string{"b"}, Short: "The bootstrap of a proxy's Envoy; -o json prints all fields",
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			d, err := v.ownDump(cmd.Context(), args)
			if err != nil {
				return err
			}
			boot := d.bootstrap()
			if boot == nil {
				return errors.New("there is no bootstrap in this config_dump: want one that an Envoy wrote; a control plane's has none")
			}
			sh := output.Sheet{Header: []string{"FIELD", "VALUE"}, Value: map[string]any{"bootstrap": boot}, Wide: true}
			sh.Rows = bootstrapRows(boot)
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	v.bind(cmd)
	return cmd
}

// ownDump returns the dump of a file, or of Envoy itself.
func (v *verb) ownDump(ctx context.Context, args []string) (dump, error) {
	if v.file != "" {
		from, err := v.source(ctx, nil)
		d, _ := from.(dump)
		return d, err
	}
	envoy, err := v.envoy(ctx, args)
	if err != nil {
		return dump{}, fmt.Errorf("only Envoy has its bootstrap: %w", err)
	}
	return fetchDump(ctx, envoy)
}

// bootstrapRows are the fields that users look for first.
func bootstrapRows(boot map[string]any) (rows [][]string) {
	add := func(field, value string) {
		if value != "" {
			rows = append(rows, []string{field, value})
		}
	}
	node := object(boot, "node")
	add("node id", text(node, "id"))
	add("node cluster", text(node, "cluster"))
	metadata := object(node, "metadata")
	for _, field := range []string{"NAMESPACE", "CLUSTER_ID", "MESH_ID", "NETWORK", "ISTIO_VERSION", "PILOT_SAN"} {
		add("node metadata "+field, text(metadata, field))
	}
	number := object(node, "userAgentBuildVersion", "version")
	if number != nil {
		add("envoy", fmt.Sprintf("%v.%v.%v", orZero(number["majorNumber"]), orZero(number["minorNumber"]), orZero(number["patch"])))
	}
	add("administration", address(object(boot, "admin", "address")))
	var clusters []string
	for _, c := range objects(object(boot, "staticResources"), "clusters") {
		clusters = append(clusters, text(c, "name"))
	}
	add("static clusters", strings.Join(clusters, ", "))
	var listeners []string
	for _, l := range objects(object(boot, "staticResources"), "listeners") {
		listeners = append(listeners, text(l, "name"))
	}
	add("static listeners", strings.Join(listeners, ", "))
	return rows
}

func orZero(n any) any {
	if n == nil {
		return 0
	}
	return n
}

// levels shows how much Envoy logs.
func levels(s Session) *cobra.Command {
	v := &verb{session: s}
	level := ""
	cmd := &cobra.Command{
		Use: "log PROXY", Aliases: []string{"o"}, Short: "How much a proxy's Envoy logs",
		Long: "Shows the levels that a proxy's Envoy was started with. To change them while it runs, ask its agent on its machine or in " +
			"its pod, because only the agent has the token for that:\n\n  pilot-agent request POST 'logging?level=debug'",
		PreRunE: func(*cobra.Command, []string) error {
			switch {
			case level != "":
				return errors.New("--level: only the proxy's agent may change levels: " +
					"run pilot-agent request POST 'logging?level=debug' on its machine or in its pod")
			case v.file != "":
				return errors.New("--file: a config_dump has no levels; name a proxy, or --admin")
			}
			return nil
		},
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			envoy, err := v.envoy(cmd.Context(), args)
			if err != nil {
				return fmt.Errorf("only Envoy knows its levels: %w", err)
			}
			raw, err := envoy.Page(cmd.Context(), "/server_info")
			if err != nil {
				return err
			}
			info, err := parse(raw)
			if err != nil {
				return fmt.Errorf("/server_info: %w", err)
			}
			sh := levelSheet(object(info, "commandLineOptions"))
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	v.bind(cmd)
	cmd.Flags().StringVar(&level, "level", "", "istioctl changes levels with this; here the agent does")
	return cmd
}

func levelSheet(options map[string]any) output.Sheet {
	value := map[string]string{}
	sh := output.Sheet{Header: []string{"COMPONENT", "LEVEL"}, Value: value, Rows: [][]string{{"all others", text(options, "logLevel")}}}
	value["*"] = text(options, "logLevel")
	for _, part := range strings.Split(text(options, "componentLogLevel"), ",") {
		if component, level, ok := strings.Cut(part, ":"); ok {
			sh.Rows = append(sh.Rows, []string{component, level})
			value[component] = level
		}
	}
	return sh
}
